# kube-proxy, the one component of a self-made cluster that needs programs beside itself.
ARG BASE
FROM ${BASE}
RUN --mount=type=bind,source=steps,target=/steps \
    --mount=type=secret,id=apt --mount=type=secret,id=apt-sources \
    sh /steps/install.sh conntrack iptables kmod nftables \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
COPY kube-proxy /usr/local/bin/kube-proxy
