/**
 * The operator's caches of the cluster, which all controllers share: Espalier's own kinds (`caches/own.ts`), owners'
 * children (`caches/children.ts`), Secrets in namespaces where the operator may read them (`caches/secrets.ts`), and
 * objects in the system namespace.
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

/**
 * How long the first pass waits for the Secrets of all namespaces. After that, each namespace is waited for separately.
 */
const servedMs = 10_000

type CachesOptions = Partial<Rights> & {
  /** Names of the Secrets in the system namespace with which databases' images are pulled. */
  pullSecrets?: ReadonlySet<string>
}

/** A child in its current or last state, with its previous state. */
type ChildChange = { object: AnyObject; previous?: AnyObject | undefined }

/** The gateways' reports, and the installation's own Secrets. */
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
    /** A cluster without snapshots has no hot backups. Everything else works. */
    snapshots: set.followIfServed('snapshots', 'VolumeSnapshot', { ...labelled, indexes: ofSnapshots }),
    secrets: served.secrets,
    /** Whether the operator may decide about objects in this namespace. */
    isServed: served.isServed,
    bindings,

    /** Calls the handler on a change of any child of an owner, except Secrets. Returns functions that unsubscribe. */
    onChild: (handler: (change: ChildChange) => void): (() => void)[] =>
      Object.values(children).map(cache => cache.onChange(handler)),

    /** Whether an owner with this uid exists that may have children. */
    isOwner: (uid: string): boolean =>
      own.databases.byIndex('uid', uid).length > 0 || own.branches.byIndex('uid', uid).length > 0,

    /** Resolves when every cache has its first list. */
    start: (): Promise<void> => {
      started ??= set.start().then(() => served.untilServed(servedMs))
      // If the caches were stopped before, a caller that awaits this gets the error. Otherwise there is no unhandled
      // rejection.
      started.catch(() => {})
      return started
    },
    stop: async () => {
      await Promise.all([served.stop(), set.stop()])
    },
    isSynced: () => set.isSynced(),
    /** The cluster, with each write in the caches as soon as it returns. */
    writeThrough: (inner: Cluster): Cluster => set.writeThrough(inner),
  }
}

export type Caches = ReturnType<typeof createCaches>
