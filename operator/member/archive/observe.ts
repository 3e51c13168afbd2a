/** Reads the archive Secrets of a member. */
import type { Secret } from '../../../cluster/index.ts'
import { childNames } from '../../../crds/index.ts'
import type { InstallationKeys } from '../../keys.ts'
import type { Member } from '../member.ts'
import { isGoodArchiveSecret } from './certificate.ts'

/** `due`: the certificate must be issued again. */
export type ArchiveCertificate = 'absent' | 'due' | 'good'

export const archiveSecretOf = (
  secrets: readonly Secret[],
  { id, incarnation, number }: { id: string; incarnation: number; number: number },
): Secret | undefined => {
  const name = childNames.archive(id, incarnation, number)
  return secrets.find(({ metadata }) => metadata.name === name)
}

export function archiveCertificateOf(
  secret: Secret | undefined,
  member: Member | undefined,
  { authority }: InstallationKeys,
  now: () => number,
): ArchiveCertificate {
  if (secret === undefined) return 'absent'
  if (authority === undefined || member === undefined) return 'good'
  return isGoodArchiveSecret(secret, member, authority, now) ? 'good' : 'due'
}
