/**
 * Creates and deletes the objects of an import attempt. The operator decrypts the source's URI here, and writes it only
 * to the pod's Secret.
 */
import { type Cluster, ClusterError, type Draft } from '../../../cluster/index.ts'
import {
  childNames,
  importSourceField,
  type ManagedDatabase,
  type ManagedDatabaseStatus,
  type PgVersion,
} from '../../../crds/index.ts'
import type { ImportConfiguration, ImportFault } from '../../../instance/import/contract.ts'
import { applicationDatabase, type Passwords, SealError } from '../../../sealing/credentials.ts'
import { openImportSource } from '../../../sealing/import-source.ts'
import { sizeInBytes } from '../../../values/quantity.ts'
import { parseSourceUri } from '../../../values/source-uri.ts'
import { timestamp } from '../../../values/time.ts'
import type { InstallationKeys } from '../../keys.ts'
import { serviceHost } from '../../member/pod/addresses.ts'
import { createIfAbsent } from '../../objects/create.ts'
import type { Owner } from '../../objects/ownership.ts'
import type { Result } from '../../owner/kind.ts'
import type { PodSettings } from '../../pod-settings.ts'
import { postgresPort } from '../../postgres/configuration.ts'
import type { Observed } from '../observed.ts'
import { AddressError, addressOf } from './addresses.ts'
import { importPodDraft, importPolicyDraft, importSecretDraft } from './drafts.ts'
import { attemptAnnotation, attemptOf, importKinds, isOfImport } from './facts.ts'
import { failedAttempt, type ImportAction } from './plan.ts'

export type ImportSettings = {
  /** Address blocks that sources may have besides public addresses. */
  from: readonly string[]
  jobs: number
  stallMs: number
}

export type Importer = {
  cluster: Cluster
  images: Partial<Record<PgVersion, string>>
  pods: PodSettings
  imports: ImportSettings
  now: () => number
}

type Pass = { observed: Observed; passwords: Passwords | undefined; keys: InstallationKeys; ca: string }

export async function performImport(
  importer: Importer,
  pass: Pass,
  action: ImportAction,
): Promise<Result<ManagedDatabaseStatus>> {
  const { cluster } = importer
  const { database, owner } = pass.observed
  if (owner === undefined) return 'done'
  switch (action.do) {
    case 'start-import':
      return startImport(importer, pass, owner, action.attempt)
    case 'end-import':
      await endImport(cluster, owner, action.upTo)
      return 'done'
    case 'delete-import-source':
      await deleteSource(cluster, database)
      return 'done'
  }
}

async function startImport(
  importer: Importer,
  pass: Pass,
  owner: Owner,
  attempt: number,
): Promise<Result<ManagedDatabaseStatus>> {
  const { cluster, images, pods, now } = importer
  const { database } = pass.observed
  const image = images[database.spec.pgVersion]
  const found = await configurationOf(importer, pass, owner)
  if ('fault' in found || image === undefined) {
    const { fault, message } = 'fault' in found ? found : imageMissing(database.spec.pgVersion)
    const state = { phase: 'running' as const, attempt, startedAt: timestamp(now()) }
    return { status: { ...database.status, import: failedAttempt(state, fault, message, now()) } }
  }
  // The network policy is created before anything runs, and the Secret before the pod that mounts it.
  await createForAttempt(cluster, owner, 'NetworkPolicy', importPolicyDraft(owner, attempt, found))
  await createForAttempt(cluster, owner, 'Secret', importSecretDraft(owner, attempt, found))
  await createForAttempt(cluster, owner, 'Pod', importPodDraft(owner, attempt, image, pods))
  return 'done'
}

const imageMissing = (version: PgVersion): Unusable => ({
  fault: 'ProgramsMissing',
  message: `no image is configured for Postgres ${version}`,
})

/**
 * Creates the object. Accepts an existing object only if it belongs to this attempt. @throws ClusterError `Conflict`
 */
async function createForAttempt<K extends (typeof importKinds)[number]>(
  cluster: Cluster,
  owner: Owner,
  kind: K,
  draft: Draft<K>,
): Promise<void> {
  if (await createIfAbsent(cluster, kind, draft)) return
  const { namespace, name, annotations } = draft.metadata
  const found = await cluster.get(kind, { namespace, name })
  const isSame =
    found !== undefined &&
    found.metadata.deletionTimestamp === undefined &&
    isOfImport(owner, found) &&
    found.metadata.annotations?.[attemptAnnotation] === annotations?.[attemptAnnotation]
  if (!isSame)
    throw new ClusterError(
      'Conflict',
      `the ${kind} ${name} belongs to another attempt, or was not created for an import`,
    )
}

type Unusable = { fault: ImportFault; message: string }

async function configurationOf(
  { cluster, imports }: Importer,
  { observed, passwords, keys, ca }: Pass,
  owner: Owner,
): Promise<ImportConfiguration | Unusable> {
  const { database, pod, appliedSize } = observed
  const { namespace } = database.metadata
  const name = database.spec.import?.secretName ?? ''
  const secret = await cluster.get('Secret', { namespace, name })
  const address = pod?.address
  if (secret === undefined || passwords === undefined || keys.sealingKey === undefined || address === undefined)
    throw new ClusterError(
      'Conflict',
      'the source Secret, the passwords, the sealing key or the address of Postgres does not exist yet',
    )
  const refused = (message: string): Unusable => ({ fault: 'SourceRefused', message })
  try {
    const text = openImportSource(keys.sealingKey, secret)
    if (text === undefined) return refused(`the Secret "${name}" has no field "${importSourceField}"`)
    const source = parseSourceUri(text)
    const capacity =
      sizeInBytes(observed.children.claim?.status?.capacity?.storage) ??
      sizeInBytes(appliedSize.size?.spec.shape.storageSize)
    return {
      source: { ...source, address: await addressOf(source.host, imports.from) },
      target: {
        ...{ host: serviceHost(owner), address, port: postgresPort, database: applicationDatabase },
        ...{ user: 'app', password: passwords.app, sslmode: 'verify-full', ca },
      },
      ...{ major: Number(database.spec.pgVersion), capacityBytes: capacity ?? Number.MAX_SAFE_INTEGER },
      ...{ jobs: imports.jobs, stallMs: imports.stallMs },
    }
  } catch (error) {
    if (error instanceof AddressError) return { fault: error.fault, message: error.message }
    if (error instanceof SealError) return refused(`the Secret "${name}" was sealed by another key`)
    if (error instanceof ClusterError || !(error instanceof Error)) throw error
    // The URI cannot be parsed. The message names the rule and does not quote the URI, which contains a password.
    return refused(`source.uri: ${error.message}`)
  }
}

async function endImport(cluster: Cluster, owner: Owner, upTo: number): Promise<void> {
  const key = { namespace: owner.namespace, name: childNames.import(owner.id) }
  for (const kind of importKinds) {
    const found = await cluster.get(kind, key)
    if (found === undefined || found.metadata.deletionTimestamp !== undefined || !isOfImport(owner, found)) continue
    if (attemptOf(found) > upTo) continue
    await cluster.delete(kind, key, { uid: found.metadata.uid })
  }
}

async function deleteSource(cluster: Cluster, { metadata, spec }: ManagedDatabase): Promise<void> {
  const key = { namespace: metadata.namespace, name: spec.import?.secretName ?? '' }
  const found = await cluster.get('Secret', key)
  if (found === undefined || found.metadata.deletionTimestamp !== undefined) return
  await cluster.delete('Secret', key, { uid: found.metadata.uid })
}
