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

# keys of the configuration: of the daemon that the options name, or else of the defaults
_hilbert_keys()
{
    local program=$1 of=()

    shift
    while [[ $# -gt 1 ]]; do
        case $1 in -n | --name | -s | --socket | -K | --server-key | -k | --client-key) of+=("$1" "$2") ;; esac
        shift
    done
    { "$program" get -t 0.2 "${of[@]}" || hilbertd --print-config; } 2>/dev/null | awk '
        /^[a-z_]+:/ { section = $1; sub(/:.*/, "", section) }
        /^[a-z_]+: [^ ]/ { print section }
        /^  [a-z_]+:/ { key = $1; sub(/:.*/, "", key); print section "." key }
        /^  - [{]kind: / {
            kind = $3; sub(/,.*/, "", kind)
            while (match($0, /, [a-z_]+: [-+.0-9]/)) { key = substr($0, RSTART + 2, RLENGTH - 5); print section "." kind "." key; $0 = substr($0, RSTART + RLENGTH) }
        }'
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
    elif [[ $name:$command == hilbertctl:set || $name:$command == hilbertctl:get ]]; then
        [[ $command == set && $before != set && $before != -* ]] ||
            COMPREPLY=($(compgen -W "$(_hilbert_keys "$program" "${COMP_WORDS[@]:1}")" -- "$current"))
    elif [[ $name == hilbert-sim && $before == "$command" ]]; then
        COMPREPLY=($(compgen -W "$("$program" --help | sed -nE 's/^Plants \((.*)\) .*/\1/p' | tr -d ,)" -- "$current") $(compgen -f -X '!*.xml' -- "$current"))
    else
        COMPREPLY=($(compgen -f -- "$current"))
    fi
}
complete -o filenames -F _hilbert hilbertd hilbertctl hilbert-sim hilbert-train hilbert-eval hilbert-convert hilbert-mavlink hilbert-view
