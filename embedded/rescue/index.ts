/**
 * Builds a new store from the volumes if the old store is lost: databases with their data, names, sizes and allowlists.
 * Passwords are new, since the old passwords were sealed in the store. The rescue changes no volume and deletes
 * nothing; it moves the rest of the old store aside. If it is killed, the user can run it again.
 */
import { existsSync, readdirSync, renameSync, rmdirSync, rmSync } from 'node:fs'
import type { Logger } from 'pino'
import type { Cluster } from '../../cluster/index.ts'
import { definitionOf } from '../../crds/definition.ts'
import {
  apiVersion,
  declarations,
  labels,
  type ManagedDatabase,
  managedByEspalier,
  type Region,
  type Size,
  systemNamespace,
  tenantHash,
  tenantName,
} from '../../crds/index.ts'
import { credentialsDraft, mintPasswords } from '../../operator/endpoint/credentials.ts'
import { claimDraft } from '../../operator/member/storage/claim.ts'
import { ownerOf } from '../../operator/objects/ownership.ts'
import { sealingKeySecret } from '../../sealing/credentials.ts'
import { parseQuantity } from '../../values/quantity.ts'
import { bootstrap } from '../bootstrap.ts'
import { sizeDrafts } from '../catalogue.ts'
import { EmbeddedError } from '../errors.ts'
import { withVolumes } from '../runtime/inspect.ts'
import { claimReference, volumeDraft } from '../runtime/volumes/persistent-volume.ts'
import { pathsOf, type Settings } from '../settings.ts'
import { openStore, StoreError } from '../store/index.ts'
import { bytesIn, findVolumes } from './find.ts'
import { planRescue, type Rescued, type RescuePlan } from './plan.ts'

/** The result. `aside`: the new location of the old store. */
type Rescue = RescuePlan & { aside: string | undefined }

type RescueOptions = {
  settings: Settings
  /** Ids of tenants whose volumes may have no record. */
  tenants: readonly string[]
  logger: Logger
  now?: () => number
}

const definitions = Object.values(declarations).map(definitionOf)

/** @throws EmbeddedError if there is nothing to rescue; StoreError; RuntimeError */
export async function rescue({ settings, tenants, logger, now = Date.now }: RescueOptions): Promise<Rescue> {
  const { home, httpsPort, ports, runAs } = settings
  const paths = pathsOf(home)
  if (!existsSync(paths.runtime)) throw new EmbeddedError(`${paths.runtime} does not exist: there are no volumes`)
  return withVolumes({ directory: paths.runtime, runAs, logger }, async locations => {
    await requireLost(paths.store, logger)
    const plan = planRescue(findVolumes(locations), tenants)
    if (plan.databases.length === 0) throw new EmbeddedError(nothing(plan))
    const unfinished = `${paths.store}.rescue`
    rmSync(unfinished, { recursive: true, force: true })
    const store = await openStore({ directory: unfinished, definitions, logger })
    try {
      const cluster = store.connect('espalier-rescue')
      await bootstrap(cluster, { databasePorts: { first: ports.first, last: ports.last - 1 }, httpsPort })
      const [region] = (await cluster.list('Region')).items
      if (region === undefined) throw new EmbeddedError('there is no region')
      for (const database of plan.databases) await putBack(cluster, database, region)
    } finally {
      await store.close()
    }
    const aside = moveAside(paths.store, now())
    renameSync(unfinished, paths.store)
    return { ...plan, aside }
  })
}

const nothing = ({ skipped }: RescuePlan): string =>
  ['no database can be restored', ...skipped.map(({ volume, why }) => `${volume.directory}: ${why}`)].join('\n')

/** @throws EmbeddedError if the store is complete; StoreError `locked`, `newer` */
async function requireLost(directory: string, logger: Logger): Promise<void> {
  const exists = existsSync(directory) && readdirSync(directory).some(name => /^(journal|snapshot)-/.test(name))
  if (!exists) return
  try {
    const store = await openStore({ directory, definitions, logger })
    await store.close()
  } catch (error) {
    if (error instanceof StoreError && error.reason === 'corrupt') return
    throw error
  }
  throw new EmbeddedError(
    `${directory} can be read: there is nothing to rescue. To build it again anyway, move it away`,
  )
}

/** Moves a directory aside, under a name with the time. An empty directory is deleted. */
function moveAside(directory: string, now: number): string | undefined {
  if (!existsSync(directory)) return undefined
  if (readdirSync(directory).length === 0) {
    rmdirSync(directory)
    return undefined
  }
  const aside = `${directory}.lost-${new Date(now).toISOString().replace(/[:.]/g, '-')}`
  renameSync(directory, aside)
  return aside
}

async function putBack(cluster: Cluster, rescued: Rescued, region: Region): Promise<void> {
  const { volume, id, name, tenant, incarnation, number, systemIdentifier } = rescued
  const { namespace } = volume
  const tenantLabels = { [labels.tenant]: tenantHash(tenant.tenantId), [labels.managedBy]: managedByEspalier }
  await cluster.apply('Namespace', {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: namespace, labels: tenantLabels },
  })
  await cluster.apply('Tenant', {
    apiVersion,
    kind: 'Tenant',
    metadata: { name: tenantName(tenant.tenantId), labels: tenantLabels },
    spec: tenant,
  })
  const size = sizeFor(rescued)
  const spec = {
    region: region.metadata.name,
    size: { name: size.spec.name, version: size.spec.version },
    pgVersion: rescued.pgVersion,
    ...rescued.spec,
  } as ManagedDatabase['spec']
  const database = await cluster.create('ManagedDatabase', {
    apiVersion,
    kind: 'ManagedDatabase',
    metadata: { namespace, name, labels: { ...tenantLabels, [labels.id]: id } },
    spec,
  })
  const member = { owner: ownerOf(database, id), incarnation, number }
  const draft = claimDraft(member, size.spec.shape, region, { systemIdentifier })
  const old = { ...draft.metadata, namespace, uid: volume.uid }
  const { metadata, spec: volumeSpec } = volumeDraft({ ...draft, metadata: old } as never)
  const storage = rescued.capacity ?? size.spec.shape.storageSize
  const claim = await cluster.create('PersistentVolumeClaim', {
    ...draft,
    spec: { ...draft.spec, volumeName: metadata.name, resources: { requests: { storage } } },
  })
  await cluster.create('PersistentVolume', {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { ...metadata, labels: { [labels.database]: id } },
    spec: { ...volumeSpec, capacity: { storage }, claimRef: claimReference(claim) },
  })
  // The operator sets these passwords in Postgres. For existing data it creates no passwords.
  const secret = await cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
  const sealingKey = Buffer.from(secret?.data?.key ?? '', 'base64')
  await cluster.create('Secret', credentialsDraft(ownerOf(database, id), sealingKey, mintPasswords()))
  const record = {
    claim: draft.metadata.name,
    uid: claim.metadata.uid ?? '',
    systemIdentifier,
    volumeName: metadata.name,
  }
  await cluster.replaceStatus('ManagedDatabase', { ...database, status: { incarnation, volume: record } })
}

/**
 * Returns the recorded size if it is still offered; otherwise the smallest size whose volume fits the data with some
 * free space.
 */
function sizeFor({ spec, volume }: Rescued): Size {
  const sizes = sizeDrafts as Size[]
  const wanted = sizes.find(size => size.spec.name === spec.size?.name && size.spec.version === spec.size?.version)
  if (wanted !== undefined) return wanted
  const bytes = bytesIn(volume.directory) * 1.25
  const large = sizes.filter(size => (parseQuantity(size.spec.shape.storageSize) ?? 0) >= bytes)
  const found = large[0] ?? sizes.at(-1)
  if (found === undefined) throw new Error('no size is offered')
  return found
}
