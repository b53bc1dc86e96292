# bash completion for hilbertd, hilbertctl and the hilbert- tools: commands, options and their choices are asked of the
# programs themselves, so that they are always those of --help

# commands that a program has
_hilbert_commands()
{
    local help=$("$1" --help 2>/dev/null)

    if [[ ${help%%$'\n'*} == *COMMAND* ]]; then
        sed -nE 's/^  ([a-z][a-z-]*)( \[?[A-Z]+\]?)?  +.*/\1/p' <<<"$help"
    else
        sed -nE "s/^ +${1##*/} ([a-z][a-z-]*) .*/\1/p" <<<"$help"
    fi
}

_hilbert()
{
    local program=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local name=${COMP_WORDS[0]##*/} command= commands word help choices

    commands=$(_hilbert_commands "$program")
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ " ${commands//$'\n'/ } " == *" $word "* ]] && { command=$word; break; }
    done
    help=$("$program" $command --help 2>/dev/null)

    case $name:$before in
    hilbertctl:-n | hilbertctl:--name | hilbert-view:-n | hilbert-view:--name)
        COMPREPLY=($(compgen -W "$(command ls /run/hilbertd 2>/dev/null)" -- "$current"))
        return ;;
    *:--*)
        # --option a|b|c or --option {a,b,c}
        choices=$(sed -nE "s/.*$before (\{[a-z_,-]+\}|[a-z_-]+(\|[a-z_-]+)+).*/\1/p" <<<"$help" | head -n 1 | tr '{},|' '    ')
        [[ $choices ]] && { COMPREPLY=($(compgen -W "$choices" -- "$current")); return; } ;;
    esac
    if [[ $current == -* ]]; then
        COMPREPLY=($(compgen -W "$(grep -oE -- '(^|[][ ,(])--[a-z][a-z-]+' <<<"$help" | tr -d '[](), ' | sort -u)" -- "$current"))
    elif [[ $commands && ! $command && $COMP_CWORD == 1 ]]; then
        COMPREPLY=($(compgen -W "$commands" -- "$current"))
    elif [[ $name:$command:$before == hilbertctl:coefficients:coefficients ]]; then
        COMPREPLY=($(compgen -W "show save load" -- "$current"))
    elif [[ $name:$command:$before == hilbertctl:record:record ]]; then
        COMPREPLY=($(compgen -W "on off status" -- "$current"))
    elif [[ $name:$command == hilbertctl:target ]]; then
        COMPREPLY=($(compgen -S = -W "$("$program" predict -N 1 -t 0.2 2>/dev/null | sed -n '1{s/time,//;s/,/ /gp}')" -- "$current"))
        compopt -o nospace 2>/dev/null
    elif [[ $name == hilbert-sim && $before == "$command" ]]; then
        COMPREPLY=($(compgen -W "$("$program" --help | sed -nE 's/^Plants \((.*)\) .*/\1/p' | tr -d ,)" -- "$current") $(compgen -f -X '!*.xml' -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -o filenames -F _hilbert hilbertd hilbertctl hilbert-sim hilbert-train hilbert-eval hilbert-convert hilbert-mavlink hilbert-view
