/**
 * The credentials Secret: a password for each role, sealed under the installation's key. It is minted by `create` only,
 * so that of two operators one wins and both use the winner's; it is never written again.
 */
// @ts-nocheck

import { randomInt } from 'node:crypto'
import type { Draft, Secret } from '../../../cluster/index.ts'
import { childNames } from '../../../crds/index.ts'
import { type DatabaseRole, databaseRoles, open, SealError, seal, secretPlace } from '../../../sealing/credentials.ts'
import { childMetadata, type Owner } from '../../objects/ownership.ts'

export type Passwords = Record<DatabaseRole, string>

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const passwordLength = 32

/** 32 letters and digits, 190 bits: safe in a URI, in a shell and in libpq's connection strings without quoting. */
const mintPassword = (): string =>
  Array.from({ length: passwordLength }, () => alphabet[randomInt(alphabet.length)]).join('')

export const mintPasswords = (): Passwords => ({
  admin: mintPassword(),
  app: mintPassword(),
  app_read_only: mintPassword(),
})

export function credentialsDraft(owner: Owner, sealingKey: Uint8Array, passwords: Passwords): Draft<'Secret'> {
  const name = childNames.credentials(owner.id)
  const sealed = (role: DatabaseRole) => seal(sealingKey, secretPlace(owner.namespace, name, role), passwords[role])
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    metadata: childMetadata(owner, name, 'credentials'),
    data: Object.fromEntries(databaseRoles.map(role => [role, Buffer.from(sealed(role)).toString('base64')])),
  }
}

/** @throws SealError naming the value that is missing or does not open; never the value itself */
export function openCredentials(secret: Secret, sealingKey: Uint8Array): Passwords {
  const { namespace = '', name } = secret.metadata
  const opened = (role: DatabaseRole): string => {
    const place = secretPlace(namespace, name, role)
    const sealed = secret.data?.[role]
    if (sealed === undefined) throw new SealError(`there is no value at ${place}`)
    return open(sealingKey, place, Buffer.from(sealed, 'base64').toString('utf8'))
  }
  return { admin: opened('admin'), app: opened('app'), app_read_only: opened('app_read_only') }
}
