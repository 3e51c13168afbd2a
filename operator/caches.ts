/**
 * What the operator follows of the cluster, once for all controllers: our own kinds whole but for Tasks that have ended,
 * and of Kubernetes' kinds only what carries our label, without what nobody reads.
 */
import type { Logger } from 'pino'
import type { AnyObject, Cluster, KindName, Kinds } from '../cluster/index.ts'
import {
  createInformer,
  createNamespacedInformer,
  type Informer,
  type InformerOptions,
  type NamespacedInformer,
  withoutManagedFields,
} from '../cluster/informer/index.ts'
import type { Metrics } from '../controller/index.ts'
import {
  askedRestore,
  awaitsData,
  branchPhase,
  childNames,
  isOpenRestore,
  labels,
  managedByEspalier,
  systemNamespace,
  tenantNamespace,
} from '../crds/index.ts'
import { gatewayComponent } from '../routes/route.ts'
import { bindingLabels, databasesLabel } from './access/bindings.ts'
import { type Served, servedByBindings, servedEverywhere, servedWhereBound } from './access/served.ts'
import { withoutForeignData } from './keys.ts'
import { sizeText } from './member/pod/stateful-set.ts'
import { slimVolume } from './member/storage/persistent-volume.ts'
import { withForeignFields } from './objects/foreign-fields.ts'
import { ownerKeyOf, ownerUidOf } from './objects/ownership.ts'
import { createOptionalInformer } from './optional-informer.ts'
import { isOfInterest } from './region/admission.ts'
import { createSharing } from './sharing.ts'
import { slimBackup, slimPod } from './slim.ts'

const labelled = { labels: { [labels.database]: true } } as const
/** How long the first pass waits for the Secrets of all namespaces. Those that come later are waited for by themselves. */
const settledMs = 10_000
const one = <T>(value: T | undefined): T[] => (value === undefined ? [] : [value])
const byOwner = {
  owner: (object: Pick<AnyObject, 'metadata'>) => one(ownerUidOf(object)),
  database: (object: Pick<AnyObject, 'metadata'>) => one(object.metadata.labels?.[labels.database]),
}

type CachesOptions = {
  /** Names of those Secrets of the system namespace by which databases' images are pulled. */
  pullSecrets?: ReadonlySet<string>
  /** Whether the operator has its rights only in namespaces in which it is bound (see `access/`). */
  byNamespace?: boolean
  /** Whether it may list and watch the Secrets of all namespaces even so. */
  watchesAllSecrets?: boolean
}

export function createCaches(
  cluster: Cluster,
  logger: Logger,
  metrics: Metrics,
  { pullSecrets = new Set(), byNamespace = false, watchesAllSecrets = false }: CachesOptions = {},
) {
  const sharing = createSharing()
  let started: Promise<void> | undefined
  const writers = new Map<KindName, ((object: AnyObject) => void)[]>()
  const all: { start(): Promise<void>; stop(): Promise<void>; readonly synced: boolean }[] = []
  const make = <K extends KindName>(
    name: string,
    kind: K,
    options: Omit<InformerOptions<K>, 'logger'>,
  ): Informer<K> => {
    const { transform = withoutManagedFields<Kinds[K]> } = options
    const informer = createInformer<K>(cluster, kind, {
      ...options,
      transform: object => sharing.share(transform(object)),
      logger: logger.child({ cache: name }),
    })
    // What is remembered under a kind is of that kind.
    const writeThrough = (object: AnyObject) => informer.writeThrough(object as Kinds[K])
    writers.set(kind, [...(writers.get(kind) ?? []), writeThrough])
    return informer
  }
  const follow = <K extends KindName>(
    name: string,
    kind: K,
    options: Omit<InformerOptions<K>, 'logger'> = {},
  ): Informer<K> => {
    const informer = make(name, kind, options)
    metrics.watchInformer(name, () => informer.state)
    all.push(informer)
    return informer
  }

  const databases = follow('databases', 'ManagedDatabase', {
    indexes: {
      id: database => one(database.metadata.labels?.[labels.id]),
      uid: database => one(database.metadata.uid),
      /** Those that have a size, and those that are to have it. */
      size: ({ spec, status }) => [...new Set([spec.size, ...one(status?.size)].map(sizeText))],
      region: ({ spec }) => [spec.region],
      /** The backup that it is still to be made of. */
      source: database =>
        awaitsData(database) ? [`${database.metadata.namespace}/${database.spec.dataSource?.backupName}`] : [],
      /** The restore that it asks for, or asked for last. */
      restore: database => one(askedRestore(database)).map(({ name }) => `${database.metadata.namespace}/${name}`),
      /** Of those that a restart waits for, or that are being restarted: their region. */
      rollout: database => (isOfInterest(database) ? [database.spec.region] : []),
      task: ({ status }) => one(status?.operation?.taskId),
    },
  })

  /** Where there are no snapshots there are no hot backups, and all else goes on. */
  const snapshots = createOptionalInformer(
    cluster,
    'VolumeSnapshot',
    make('snapshots', 'VolumeSnapshot', { ...labelled, indexes: byOwner }),
    { logger: logger.child({ cache: 'snapshots' }) },
  )

  const branches = follow('branches', 'Branch', {
    indexes: {
      id: branch => one(branch.metadata.labels?.[labels.id]),
      uid: branch => one(branch.metadata.uid),
      database: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseName}`],
      size: ({ spec }) => [sizeText(spec.size)],
      region: ({ spec }) => [spec.region],
      /** As of databases. */
      rollout: branch => (isOfInterest(branch) ? [branch.spec.region] : []),
      /** The backup that it is still to be made of. */
      source: branch =>
        branchPhase(branch) === 'creating'
          ? one(branch.metadata.labels?.[labels.id]).map(
              id => `${branch.metadata.namespace}/${childNames.prebranch(id)}`,
            )
          : [],
      task: ({ status }) => one(status?.operation?.taskId),
    },
  })

  const bindings = byNamespace
    ? follow('role-bindings', 'RoleBinding', { labels: bindingLabels })
    : make('role-bindings', 'RoleBinding', { labels: bindingLabels })
  const followAllSecrets = () => follow('secrets', 'Secret', { ...labelled, indexes: byOwner })
  const followSecretsByNamespace = (): NamespacedInformer<'Secret'> => {
    const transform = (secret: Kinds['Secret']) => sharing.share(withoutManagedFields(secret))
    const child = logger.child({ cache: 'secrets' })
    const secrets = createNamespacedInformer(cluster, 'Secret', {
      ...labelled,
      indexes: byOwner,
      transform,
      logger: child,
    })
    writers.set('Secret', [...(writers.get('Secret') ?? []), object => secrets.writeThrough(object as Kinds['Secret'])])
    metrics.watchInformer('secrets', () => secrets.state)
    return secrets
  }
  const servedBound = (): Served =>
    watchesAllSecrets
      ? servedWhereBound(bindings, followAllSecrets())
      : servedByBindings(bindings, followSecretsByNamespace())
  const served = byNamespace ? servedBound() : servedEverywhere(followAllSecrets())

  return {
    databases,
    branches,
    backups: follow('backups', 'Backup', {
      transform: slimBackup,
      indexes: {
        database: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseId}`],
        databaseName: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseName}`],
        task: ({ status }) => one(status?.taskId),
        verification: ({ status }) => (status?.verification === 'pending' ? ['pending'] : []),
      },
    }),
    snapshots,
    restores: follow('restores', 'Restore', {
      indexes: {
        database: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseId}`],
        databaseName: ({ metadata, spec }) => [`${metadata.namespace}/${spec.databaseName}`],
        /** Of those that have not ended: the backup that they restore from. */
        source: restore =>
          isOpenRestore(restore) ? [`${restore.metadata.namespace}/${restore.spec.target.backupName}`] : [],
      },
    }),
    /** Those that have not ended: a month of the others is ten times as many. */
    tasks: follow('tasks', 'Task', {
      open: true,
      indexes: {
        subject: ({ metadata, spec }) => [`${metadata.namespace}/${spec.subject.kind}/${spec.subject.name}`],
      },
    }),
    sizes: follow('sizes', 'Size'),
    regions: follow('regions', 'Region'),
    tenants: follow('tenants', 'Tenant', { indexes: { namespace: ({ spec }) => [tenantNamespace(spec.tenantId)] } }),
    namespaces: follow('namespaces', 'Namespace', {
      labels: { [labels.managedBy]: managedByEspalier, [labels.tenant]: true },
    }),
    /** Those of somebody else in which databases may be. */
    otherNamespaces: follow('other-namespaces', 'Namespace', { labels: { [databasesLabel]: 'true' } }),
    quotas: follow('quotas', 'ResourceQuota', {
      labels: { [labels.managedBy]: managedByEspalier, [labels.tenant]: true },
    }),
    statefulSets: follow('stateful-sets', 'StatefulSet', {
      ...labelled,
      transform: withForeignFields,
      indexes: byOwner,
    }),
    pods: follow('pods', 'Pod', {
      ...labelled,
      transform: slimPod,
      indexes: { database: pod => one(pod.metadata.labels?.[labels.database]) },
    }),
    services: follow('services', 'Service', { ...labelled, transform: withForeignFields, indexes: byOwner }),
    networkPolicies: follow('network-policies', 'NetworkPolicy', {
      ...labelled,
      transform: withForeignFields,
      indexes: { ...byOwner, component: policy => one(policy.metadata.labels?.[labels.component]) },
    }),
    disruptionBudgets: follow('disruption-budgets', 'PodDisruptionBudget', {
      ...labelled,
      transform: withForeignFields,
      indexes: byOwner,
    }),
    claims: follow('claims', 'PersistentVolumeClaim', { ...labelled, indexes: byOwner }),
    volumes: follow('volumes', 'PersistentVolume', { ...labelled, transform: slimVolume, indexes: byOwner }),
    secrets: served.secrets,
    /** Whether anything may be decided of what is in this namespace. */
    isServed: served.isServed,
    bindings,
    configMaps: follow('config-maps', 'ConfigMap', {
      ...labelled,
      transform: withForeignFields,
      indexes: { ...byOwner, ownerKey: configMap => one(ownerKeyOf(configMap)) },
    }),
    gateways: follow('gateways', 'Lease', {
      namespace: systemNamespace,
      labels: { [labels.component]: gatewayComponent },
    }),
    systemSecrets: follow('system-secrets', 'Secret', {
      namespace: systemNamespace,
      transform: secret => withoutForeignData(secret, pullSecrets),
    }),

    /** Whether somebody of this uid lives who may have children. */
    isOwner: (uid: string): boolean =>
      databases.byIndex('uid', uid).length > 0 || branches.byIndex('uid', uid).length > 0,

    /** Resolves once every cache has its first list. */
    start: (): Promise<void> => {
      snapshots.start()
      started ??= Promise.all(all.map(informer => informer.start())).then(() => served.settled(settledMs))
      // Who awaits it still sees that it was stopped before; who does not is not brought down by it.
      started.catch(() => {})
      return started
    },
    stop: async () => {
      await Promise.all([snapshots, served, ...all].map(informer => informer.stop()))
    },
    isSynced: () => all.every(informer => informer.synced),
    /** The cluster, whose every write is in the caches as soon as it is answered. */
    writeThrough: (inner: Cluster): Cluster => {
      const writtenThrough = async <K extends KindName>(kind: K, write: Promise<Kinds[K]>): Promise<Kinds[K]> => {
        const object = await write
        for (const writeThrough of writers.get(kind) ?? []) writeThrough(object)
        return object
      }
      return {
        get: (kind, key) => inner.get(kind, key),
        list: (kind, options) => inner.list(kind, options),
        watch: (kind, options) => inner.watch(kind, options),
        logs: (pod, options) => inner.logs(pod, options),
        delete: (kind, key, options) => inner.delete(kind, key, options),
        create: (kind, draft) => writtenThrough(kind, inner.create(kind, draft)),
        apply: (kind, draft) => writtenThrough(kind, inner.apply(kind, draft)),
        // A cached object has some managers' fields only; sent back, they would be treated as all.
        replace: (kind, object) => writtenThrough(kind, inner.replace(kind, withoutManagedFields(object))),
        replaceStatus: (kind, object) => writtenThrough(kind, inner.replaceStatus(kind, object)),
      }
    },
  }
}

export type Caches = ReturnType<typeof createCaches>
