/**
 * The Secret with which a member reads its restore source. Its client certificate permits reading one incarnation's
 * objects, and no writing. The Secret exists until the volume is recorded. Pods mount the Secret only if it exists.
 */
import type { Draft, Secret } from '../../../cluster/index.ts'
import { childNames } from '../../../crds/index.ts'
import type { InstallationKeys } from '../../keys.ts'
import type { ArchiveSource, Instance } from '../../objects/instance.ts'
import { childMetadata } from '../../objects/ownership.ts'
import { issueClientCertificate, needsRenewal } from '../../pki/index.ts'
import type { Trust } from '../../pki/trust.ts'
import { type Member, memberLabels } from '../member.ts'
import type { ArchiveCertificate } from './observe.ts'

/**
 * A recovery takes hours at most. If the pod crashes, the recovery starts again, and the operator issues the
 * certificate again.
 */
const days = 7

/** The mount of the Secret that permits reading the archive. */
export const archiveSourceMount = {
  name: 'archive-source',
  mountPath: '/etc/espalier/archive-source',
  readOnly: true,
} as const

const base64 = (text: string): string => Buffer.from(text).toString('base64')

/** The restore source of a member that is not recovered yet. */
export const archiveSourceOf = ({
  status,
  dataSource,
}: Pick<Instance, 'status' | 'dataSource'>): ArchiveSource | undefined =>
  status?.volume === undefined && dataSource?.kind === 'archive' ? dataSource : undefined

/** The data of a Secret, in base64. The certificate permits reading one incarnation's objects, and no writing. */
export function readerSecretData(
  ownerId: string,
  { id, incarnation }: Pick<ArchiveSource['recover'], 'id' | 'incarnation'>,
  trust: Trust,
  now: () => number,
): Record<'archive.crt' | 'archive.key' | 'ca.crt', string> {
  const uris = [`urn:espalier:archive:read:${id}:${incarnation}`]
  const { cert, key } = issueClientCertificate(trust, { commonName: `espalier-recovery-${ownerId}`, uris, days }, now)
  return { 'archive.crt': base64(cert), 'archive.key': base64(key), 'ca.crt': base64(trust.bundle) }
}

export function archiveSourceDraft(
  member: Member,
  { recover }: ArchiveSource,
  trust: Trust,
  now: () => number,
): Draft<'Secret'> {
  const { owner, incarnation, number } = member
  const metadata = childMetadata(owner, childNames.archiveSource(owner.id, incarnation, number), 'archive')
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    metadata: { ...metadata, labels: { ...metadata.labels, ...memberLabels(member) } },
    data: readerSecretData(owner.id, recover, trust, now),
  }
}

export function archiveSourceState(
  secret: Secret | undefined,
  { authority }: InstallationKeys,
  now: () => number,
): ArchiveCertificate {
  if (secret === undefined) return 'absent'
  if (authority === undefined) return 'good'
  const text = (key: string): string => Buffer.from(secret.data?.[key] ?? '', 'base64').toString('utf8')
  return text('ca.crt') === authority.bundle && !needsRenewal(text('archive.crt'), now) ? 'good' : 'due'
}
