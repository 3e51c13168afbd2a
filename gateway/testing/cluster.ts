/**
 * A real store for gateway tests, behind a `Cluster` that a test can make fail: requests that throw, watches that
 * break, and watches that stop without an error.
 */
import pino from 'pino'
import { ClusterError } from '../../cluster/errors.ts'
import type { Lease } from '../../cluster/kinds.ts'
import type { Cluster } from '../../cluster/port.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/metadata.ts'
import { openStore } from '../../embedded/store/index.ts'
import {
  gatewayComponent,
  type HttpRoute,
  httpRouteName,
  type Route,
  type RouteTarget,
  routeComponent,
  routeKey,
  routeName,
} from '../../routes/route.ts'

type Faults = {
  /** If true, lists and watches of ConfigMaps throw, and running watches break. */
  routes: boolean
  /** If true, writes of Leases throw. */
  leases: boolean
  /** If true, lists of Services throw. */
  services: boolean
}

export type TestCluster = {
  /** The cluster as the gateway sees it. */
  faulty: Cluster
  faults: Faults
  /** The writes of Leases: their number, and the highest number at once. */
  leaseWrites: { total: number; atOnce: number }
  /** Breaks the open watches. */
  breakWatches(): void
  /** Blocks the open watches. New watches work. */
  silenceWatches(): void
  /** Writes a route, by port or by host name, and resolves to its resourceVersion. */
  putRoute(route: Route | HttpRoute): Promise<string>
  deleteRoute(port: number): Promise<void>
  /** Creates a Service as the operator does, with an address as from the API server, in the Service's own namespace. */
  putService(target: RouteTarget, clusterIP: string): Promise<void>
  leases(): Promise<Lease[]>
  operator: Cluster
  close(): Promise<void>
}

export async function openTestCluster(): Promise<TestCluster> {
  const store = await openStore({ definitions: [], logger: pino({ level: 'silent' }), bookmarkMs: 200 })
  const operator = store.connect('operator')
  await operator.create('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: systemNamespace } })
  const inner = store.connect('gateway')
  const faults: Faults = { routes: false, leases: false, services: false }
  const leaseWrites = { total: 0, atOnce: 0 }
  let writing = 0
  let broken = new AbortController()
  let silenced = new AbortController()

  const fail = (): never => {
    throw new ClusterError('Unavailable', 'made to fail')
  }
  const faulty: Cluster = {
    ...inner,
    list: async (kind, options) => {
      if ((faults.routes && kind === 'ConfigMap') || (faults.services && kind === 'Service')) fail()
      return await inner.list(kind, options)
    },
    apply: async (kind, object) => {
      if (kind !== 'Lease') return await inner.apply(kind, object)
      if (faults.leases) fail()
      leaseWrites.total++
      leaseWrites.atOnce = Math.max(leaseWrites.atOnce, ++writing)
      try {
        return await inner.apply(kind, object)
      } finally {
        writing--
      }
    },
    watch: async function* (kind, options) {
      if (faults.routes && kind === 'ConfigMap') fail()
      const own = { broken: broken.signal, silenced: silenced.signal }
      const signal = AbortSignal.any([options.signal, own.broken])
      for await (const event of inner.watch(kind, { ...options, signal })) {
        if (own.silenced.aborted) await new Promise(resolve => signal.addEventListener('abort', resolve))
        else yield event
      }
      if (own.broken.aborted) fail()
    },
  }

  return {
    faulty,
    faults,
    leaseWrites,
    breakWatches: () => {
      broken.abort()
      broken = new AbortController()
    },
    silenceWatches: () => {
      silenced.abort()
      silenced = new AbortController()
    },
    putRoute: async route => {
      const written = await operator.apply('ConfigMap', {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: {
          name: 'port' in route ? routeName(route.port) : httpRouteName(route.host),
          namespace: systemNamespace,
          labels: { [labels.component]: routeComponent },
        },
        data: { [routeKey]: JSON.stringify(route) },
      })
      return written.metadata.resourceVersion ?? ''
    },
    deleteRoute: port => operator.delete('ConfigMap', { namespace: systemNamespace, name: routeName(port) }),
    putService: async ({ namespace, service, port }, clusterIP) => {
      await operator.apply('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
      await operator.apply('Service', {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: service, namespace, labels: { [labels.managedBy]: managedByEspalier } },
        spec: { type: 'ClusterIP', clusterIP, ports: [{ name: 'postgres', port, protocol: 'TCP' }] },
      })
    },
    leases: async () => {
      const selected = { namespace: systemNamespace, labels: { [labels.component]: gatewayComponent } }
      return (await operator.list('Lease', selected)).items
    },
    operator,
    close: () => store.close(),
  }
}
