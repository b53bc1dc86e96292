#!/bin/sh
# Two hosts, as network namespaces with a cable between them: hilbert-train under mpirun over TCP gives the same bytes as
# one process.
#
# usage: ranks_hosts.sh [BUILD]      as root, with iproute2 and Open MPI; BUILD is build unless given
set -eu
command -v ip >/dev/null || { echo "ranks_hosts.sh: ip is missing: apt-get install iproute2" >&2; exit 1; }
ip netns list >/dev/null || { echo "ranks_hosts.sh: network namespaces need root" >&2; exit 1; }
build=$(cd "${1:-build}" && pwd)
one=hb$$a two=hb$$b folder=$(mktemp -d)
trap 'ip netns del $one 2>/dev/null; ip netns del $two 2>/dev/null; rm -rf "$folder"' EXIT

ip netns add $one
ip netns add $two
ip -n $one link add eth0 type veth peer name eth0 netns $two
ip -n $one addr add 10.77.0.1/24 dev eth0
ip -n $two addr add 10.77.0.2/24 dev eth0
for host in $one $two; do
    ip -n $host link set lo up
    ip -n $host link set eth0 up
done

# what ssh would do: mpirun calls it with a host and a command
cat >"$folder/agent" <<EOF
#!/bin/sh
shift
exec ip netns exec $two unshare --uts sh -c "hostname $two; \$*"
EOF
chmod +x "$folder/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

train() {
    echo "$build/clients/train/hilbert-train --data $folder/data.h5 --nb 3 --hidden 10,10 --functions 6 --examples 30" \
        "--queries 30 --steps 200 --threads 1 --output $folder/$1"
}

"$build/clients/sim/hilbert-sim" collect vanderpol -f 12 -e 2 -n 60 -s 9 -q -o "$folder/data.h5"
$(train alone)
ip netns exec $one unshare --uts sh -c "hostname $one; exec mpirun -n 2 --host 10.77.0.1:1,10.77.0.2:1 \
    --mca plm_rsh_agent $folder/agent --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
    --mca oob_tcp_if_include 10.77.0.0/24 $(train together)"
sent=$(ip -n $one -s link show eth0 | awk '/TX/ {getline; print $1}')
cmp "$folder/alone" "$folder/together"
# two ranks on one host would not need the cable
[ "$sent" -gt 200000 ] || { echo "ranks_hosts: $sent bytes went over the cable: were they two hosts?" >&2; exit 1; }
echo "two hosts, $sent bytes from the first to the second: the same bytes as one process"
