/**
 * What the operator follows of the cluster, once for all controllers: our own kinds (`caches/own.ts`), children of owners
 * (`caches/children.ts`), Secrets where it may read them (`caches/secrets.ts`), and what is in the system namespace.
 */
import type { Logger } from 'pino'
import type { AnyObject, Cluster } from '../cluster/index.ts'
import type { Metrics } from '../controller/index.ts'
import { labels, systemNamespace } from '../crds/index.ts'
import { gatewayComponent } from '../routes/route.ts'
import { CacheSet } from './caches/cache-set.ts'
import { followChildren } from './caches/children.ts'
import { labelled, ofSnapshots } from './caches/indexes.ts'
import { followOwnKinds, followTenancy } from './caches/own.ts'
import { followSecrets, type Rights } from './caches/secrets.ts'
import { withoutForeignData } from './keys.ts'

/** How long the first pass waits for the Secrets of all namespaces. Those that come later are waited for by themselves. */
const settledMs = 10_000

type CachesOptions = Partial<Rights> & {
  /** Names of those Secrets of the system namespace by which databases' images are pulled. */
  pullSecrets?: ReadonlySet<string>
}

/** A child as it is, or was last, and as it was before. */
type ChildChange = { object: AnyObject; previous?: AnyObject | undefined }

/** What gateways report, and the installation's own Secrets. */
const followSystem = (set: CacheSet, pullSecrets: ReadonlySet<string>) => ({
  gateways: set.follow('gateways', 'Lease', {
    namespace: systemNamespace,
    labels: { [labels.component]: gatewayComponent },
  }),
  systemSecrets: set.follow('system-secrets', 'Secret', {
    namespace: systemNamespace,
    transform: secret => withoutForeignData(secret, pullSecrets),
  }),
})

export function createCaches(
  cluster: Cluster,
  logger: Logger,
  metrics: Metrics,
  { pullSecrets = new Set(), byNamespace = false, watchesAllSecrets = false }: CachesOptions = {},
) {
  const set = new CacheSet(cluster, logger, metrics)
  const own = followOwnKinds(set)
  const children = followChildren(set)
  const { bindings, served } = followSecrets(set, { byNamespace, watchesAllSecrets })
  let started: Promise<void> | undefined
  return {
    ...own,
    ...followTenancy(set),
    ...children,
    ...followSystem(set, pullSecrets),
    /** Where there are no snapshots there are no hot backups, and all else goes on. */
    snapshots: set.followIfServed('snapshots', 'VolumeSnapshot', { ...labelled, indexes: ofSnapshots }),
    secrets: served.secrets,
    /** Whether anything may be decided of what is in this namespace. */
    isServed: served.isServed,
    bindings,

    /** Calls the handler on a change of any child of an owner, but for Secrets. Returns what ends each. */
    onChild: (handler: (change: ChildChange) => void): (() => void)[] =>
      Object.values(children).map(cache => cache.onChange(handler)),

    /** Whether somebody of this uid lives who may have children. */
    isOwner: (uid: string): boolean =>
      own.databases.byIndex('uid', uid).length > 0 || own.branches.byIndex('uid', uid).length > 0,

    /** Resolves once every cache has its first list. */
    start: (): Promise<void> => {
      started ??= set.start().then(() => served.settled(settledMs))
      // Who awaits it still sees that it was stopped before; who does not is not brought down by it.
      started.catch(() => {})
      return started
    },
    stop: async () => {
      await Promise.all([served.stop(), set.stop()])
    },
    isSynced: () => set.isSynced(),
    /** The cluster, whose every write is in the caches as soon as it is answered. */
    writeThrough: (inner: Cluster): Cluster => set.writeThrough(inner),
  }
}

export type Caches = ReturnType<typeof createCaches>
