#!/bin/sh
# Starts the emulated machine in a network of its own and sends it requests whenever it says ASK. Arguments: kernel, initramfs,
# the console's file. The kernel's own tests of its ciphers are left out: under emulation one can hang, and nothing here uses them.
kernel=$1 initramfs=$2 console=$3
ip link set lo up
ip tuntap add dev tap0 mode tap multi_queue
ip addr add 10.9.0.1/24 dev tap0
# Clients have addresses of their own: one of the modes goes by them.
for client in $(seq 16); do ip addr add 10.9.0.$((100 + client))/24 dev tap0; done
ip link set tap0 up
set -- -machine q35 -accel tcg,thread=multi -cpu max -smp 16,sockets=4,cores=4 -m 4096
for node in 0 1 2 3; do
    set -- "$@" -object "memory-backend-ram,id=m$node,size=1G" \
        -numa "node,nodeid=$node,cpus=$((node * 4))-$((node * 4 + 3)),memdev=m$node"
done
# The distances of a Dell R905: four Opterons in a square with one diagonal.
for distance in 0:1:16 0:2:16 0:3:22 1:2:22 1:3:16 2:3:16; do
    IFS=: read -r from to far <<END
$distance
END
    set -- "$@" -numa "dist,src=$from,dst=$to,val=$far"
done
qemu-system-x86_64 "$@" \
    -device pxb-pcie,id=far,bus_nr=64,numa_node=1,bus=pcie.0 -device pcie-root-port,id=rp1,bus=far,chassis=1 \
    -netdev tap,id=net,ifname=tap0,script=no,downscript=no,queues=4,vhost=off \
    -device virtio-net-pci,netdev=net,bus=rp1,mq=on,rss=on,hash=on,vectors=10 \
    -kernel "$kernel" -initrd "$initramfs" -append "console=ttyS0 quiet panic=-1 cryptomgr.notests" \
    -display none -monitor none -serial "file:$console" -no-reboot &
machine=$!
trap 'kill $machine $clients 2> /dev/null' EXIT
asked=0
while kill -0 $machine 2> /dev/null; do
    count=$(grep -c "VERMEIL ASK" "$console" 2> /dev/null)
    while [ "${count:-0}" -gt "$asked" ]; do
        asked=$((asked + 1))
        # ASK CLIENTS REQUESTS-OF-EACH FILE [PACE]: clients at once, each request on a connection of its own, or at a pace, such as
        # 2/m for two in a minute, and all of a client on one.
        set -- $(grep "VERMEIL ASK" "$console" | sed -n "${asked}s/.*ASK //p" | tr -d '\r')
        keep=${4:+keep-alive}
        for client in $(seq "$1"); do
            curl -s -m 120 -o /dev/null --interface 10.9.0.$((100 + client)) \
                ${4:+--rate "$4"} -H "Connection: ${keep:-close}" \
                "http://10.9.0.2/$3?[1-$2]" &
            clients="$clients $!"
        done
    done
    sleep 0.2
done
wait $machine
