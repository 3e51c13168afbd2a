/** Performs one action of an endpoint's plan, on its Secrets and its port. */
import { ClusterError, type Draft, type Secret } from '../../cluster/index.ts'
import { childNames } from '../../crds/index.ts'
import type { Passwords } from '../../sealing/credentials.ts'
import {
  applyChild,
  type ChildExecutor,
  type ChildPass,
  createChild,
  existingChild,
  identifiedOwner,
  restoreLabels,
} from '../children/act.ts'
import type { InstallationKeys } from '../keys.ts'
import { childMetadata, ownerUidOf } from '../objects/ownership.ts'
import type { DesiredRoles, ReadDesiredRoles } from '../postgres/administrator.ts'
import type { EndpointAction } from './actions.ts'
import { certificateDraft, fingerprintOf, loadedAnnotation } from './certificate.ts'
import { credentialsDraft, mintPasswords, rotated, takenBack, withoutPrevious } from './credentials.ts'
import { credentialsOf } from './observe.ts'
import type { ObservedEndpoint } from './observed.ts'
import type { PortAllocator } from './port-allocator.ts'

export type EndpointExecutor = ChildExecutor & {
  ports: PortAllocator
  now: () => number
  /** The current keys. If a certificate is issued late in a pass, the authority that is valid then signs it. */
  keys: () => InstallationKeys
}

/** `passwords`: undefined if the credentials are not readable. */
export type EndpointPass = Pick<ChildPass, 'key'> & {
  observed: ObservedEndpoint & ChildPass['observed']
  keys: InstallationKeys
  passwords: Passwords | undefined
}

/**
 * Runs `work` while no other operator changes the roles of the serving Postgres. Does nothing if Postgres cannot be
 * reached.
 */
type WithRolesLocked = (work: () => Promise<void>) => Promise<void>

export async function performEndpoint(
  executor: EndpointExecutor,
  pass: EndpointPass,
  action: EndpointAction,
  withRolesLocked: WithRolesLocked,
): Promise<void> {
  const { cluster, ports } = executor
  switch (action.do) {
    case 'relabel':
      await cluster.replace('Secret', action.secret)
      return
    case 'mint-credentials':
      return mint(executor, pass)
    case 'find-credentials':
      return findCredentials(executor, pass)
    case 'rotate-passwords':
      return rewrite(executor, pass, (secret, key) => rotated(secret, key, action.rotations))
    case 'forget-previous-passwords':
      return rewrite(executor, pass, withoutPrevious)
    case 'take-back-passwords':
      // Another operator may have been frozen with the new password in memory. Either it has set that password before
      // now, and the next probe detects this. Or it reads the restored password before it changes the roles.
      return withRolesLocked(() => rewrite(executor, pass, (secret, key) => takenBack(secret, key, action.roles)))
    case 'issue-certificate':
      return issueCertificate(executor, pass, action)
    case 'note-loaded':
      return noteLoaded(executor, pass, action)
    case 'claim-port':
      return ports.claim(cluster, identifiedOwner(pass), pass.observed.region, action.preferred)
    case 'leave-port':
      return ports.leave(cluster, action)
  }
}

/** Returns a function that reads the roles' passwords; undefined if the credentials are not readable. */
export function readRolesOf(executor: EndpointExecutor, pass: EndpointPass): ReadDesiredRoles | undefined {
  if (pass.passwords === undefined || pass.observed.credentials.state !== 'readable') return undefined
  return () => currentRoles(executor, pass)
}

/** The passwords that the cluster has now. @throws ClusterError `Conflict` if they are no longer readable */
async function currentRoles({ cluster, keys }: EndpointExecutor, { observed }: EndpointPass): Promise<DesiredRoles> {
  const { children, incarnation, instance } = observed
  const seen = children.credentials?.metadata
  const secret = seen && (await cluster.get('Secret', seen))
  const isOwn =
    secret !== undefined && (secret.metadata.uid === seen?.uid || ownerUidOf(secret) === instance.metadata.uid)
  const { facts, passwords } = credentialsOf(isOwn ? secret : undefined, keys(), incarnation)
  if (passwords === undefined || facts.state !== 'readable')
    throw new ClusterError('Conflict', 'the credentials have changed: the operator changes nothing in Postgres')
  return { passwords, passwordVersion: facts.passwordVersion }
}

async function mint(executor: EndpointExecutor, pass: EndpointPass): Promise<void> {
  const { sealingKey } = pass.keys
  if (sealingKey === undefined) return
  await createChild(executor, pass, 'Secret', credentialsDraft(identifiedOwner(pass), sealingKey, mintPasswords()))
}

async function findCredentials(executor: EndpointExecutor, pass: EndpointPass): Promise<void> {
  const owner = identifiedOwner(pass)
  const metadata = childMetadata(owner, childNames.credentials(owner.id), 'credentials')
  const draft: Draft<'Secret'> = { apiVersion: 'v1', kind: 'Secret', metadata }
  const found = await existingChild(executor, pass, 'Secret', draft)
  if (found !== undefined) await restoreLabels(executor, 'Secret', found, draft)
}

/**
 * Writes the credentials Secret. Fails if the Secret has changed since it was observed, so that it does not overwrite
 * another pass's password.
 */
async function rewrite(
  { cluster }: EndpointExecutor,
  { observed, keys: { sealingKey } }: EndpointPass,
  change: (secret: Secret, sealingKey: Uint8Array) => Secret,
): Promise<void> {
  const { credentials } = observed.children
  if (credentials === undefined || sealingKey === undefined) return
  await cluster.replace('Secret', change(credentials, sealingKey))
}

async function issueCertificate(
  executor: EndpointExecutor,
  pass: EndpointPass,
  { names }: Extract<EndpointAction, { do: 'issue-certificate' }>,
): Promise<void> {
  const { authority } = executor.keys()
  if (authority === undefined) return
  await applyChild(executor, pass, 'Secret', certificateDraft(identifiedOwner(pass), authority, names, executor.now))
}

/** Fails if the Secret was reissued after it was observed. */
async function noteLoaded(
  { cluster }: EndpointExecutor,
  { observed }: EndpointPass,
  { fingerprint }: Extract<EndpointAction, { do: 'note-loaded' }>,
): Promise<void> {
  const { certificate } = observed.children
  if (certificate === undefined || fingerprintOf(certificate) !== fingerprint) return
  const annotations = { ...certificate.metadata.annotations, [loadedAnnotation]: fingerprint }
  await cluster.replace('Secret', { ...certificate, metadata: { ...certificate.metadata, annotations } })
}
