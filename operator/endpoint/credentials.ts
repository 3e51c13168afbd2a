/**
 * The credentials Secret: a password for each role, sealed with the installation's key. The operator creates the
 * passwords only by `create`. So if two operators do this at the same time, one fails, and both use the same passwords.
 * The operator updates the Secret only for a rotation, by a guarded `replace`. It keeps the previous password beside
 * the new one until Postgres was observed to have the new one. So the valid password is never lost.
 */
import { randomInt } from 'node:crypto'
import type { Draft, Secret } from '../../cluster/index.ts'
import { childNames, type Rotations } from '../../crds/index.ts'
import {
  type DatabaseRole,
  databaseRoles,
  open,
  type Passwords,
  previousPassword,
  type RoleRotation,
  rotationAnnotations,
  rotationsOf,
  SealError,
  seal,
  secretLocation,
} from '../../sealing/credentials.ts'
import { childMetadata, type Owner } from '../objects/ownership.ts'

const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const passwordLength = 32

/** 32 letters and digits, 190 bits. Safe in a URI, in a shell and in libpq's connection strings without quoting. */
const mintPassword = (): string =>
  Array.from({ length: passwordLength }, () => alphabet[randomInt(alphabet.length)]).join('')

export const mintPasswords = (): Passwords => ({
  admin: mintPassword(),
  app: mintPassword(),
  app_read_only: mintPassword(),
})

export function credentialsDraft(owner: Owner, sealingKey: Uint8Array, passwords: Passwords): Draft<'Secret'> {
  const name = childNames.credentials(owner.id)
  const sealed = (role: DatabaseRole) => seal(sealingKey, secretLocation(owner.namespace, name, role), passwords[role])
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    metadata: childMetadata(owner, name, 'credentials'),
    data: Object.fromEntries(databaseRoles.map(role => [role, Buffer.from(sealed(role)).toString('base64')])),
  }
}

/** @throws SealError names the value that is missing or cannot be opened, but never contains the value */
export function openCredentials(secret: Secret, sealingKey: Uint8Array): Passwords {
  const opened = (role: DatabaseRole) => openValue(secret, sealingKey, role)
  return { admin: opened('admin'), app: opened('app'), app_read_only: opened('app_read_only') }
}

/** The previous passwords that are still stored. @throws SealError */
export function openPrevious(secret: Secret, sealingKey: Uint8Array): Partial<Passwords> {
  const retained = databaseRoles.filter(role => secret.data?.[previousPassword(role)] !== undefined)
  return Object.fromEntries(retained.map(role => [role, openValue(secret, sealingKey, previousPassword(role))]))
}

const locationIn = ({ metadata: { namespace = '', name } }: Secret, field: string): string =>
  secretLocation(namespace, name, field)

function openValue(secret: Secret, sealingKey: Uint8Array, field: string): string {
  const location = locationIn(secret, field)
  const sealed = secret.data?.[field]
  if (sealed === undefined) throw new SealError(`no value at ${location}`)
  return open(sealingKey, location, Buffer.from(sealed, 'base64').toString('utf8'))
}

const sealValue = (secret: Secret, sealingKey: Uint8Array, field: string, value: string): string =>
  Buffer.from(seal(sealingKey, locationIn(secret, field), value)).toString('base64')

const withRotations = (secret: Secret, changed: Partial<Record<DatabaseRole, RoleRotation>>): Secret['metadata'] => ({
  ...secret.metadata,
  annotations: { ...secret.metadata.annotations, ...rotationAnnotations({ ...rotationsOf(secret), ...changed }) },
})

/**
 * The Secret with a new password for each of these roles. Keeps the previous passwords beside them. @throws SealError
 */
export function rotated(secret: Secret, sealingKey: Uint8Array, rotations: Rotations): Secret {
  const recorded = rotationsOf(secret)
  const data = { ...secret.data }
  const changed: Partial<Record<DatabaseRole, RoleRotation>> = {}
  for (const role of databaseRoles) {
    const rotation = rotations[role]
    if (rotation === undefined) continue
    const previous = previousPassword(role)
    data[previous] = sealValue(secret, sealingKey, previous, openValue(secret, sealingKey, role))
    data[role] = sealValue(secret, sealingKey, role, mintPassword())
    const before = recorded[role]?.rotation
    changed[role] = { rotation, ...(before === undefined ? {} : { before }) }
  }
  return { ...secret, metadata: withRotations(secret, changed), data }
}

/** The Secret without previous passwords. */
export function withoutPrevious(secret: Secret): Secret {
  const retained = Object.entries(secret.data ?? {}).filter(([field]) => !isPrevious(field))
  const changed = Object.entries(rotationsOf(secret)).map(([role, { rotation }]) => [
    role,
    rotation === undefined ? {} : { rotation },
  ])
  return { ...secret, metadata: withRotations(secret, Object.fromEntries(changed)), data: Object.fromEntries(retained) }
}

const isPrevious = (field: string): boolean => databaseRoles.some(role => previousPassword(role) === field)

/** The Secret with the previous passwords of these roles restored. @throws SealError */
export function takenBack(secret: Secret, sealingKey: Uint8Array, roles: readonly DatabaseRole[]): Secret {
  const recorded = rotationsOf(secret)
  const data = { ...secret.data }
  const changed: Partial<Record<DatabaseRole, RoleRotation>> = {}
  for (const role of roles) {
    const previous = previousPassword(role)
    data[role] = sealValue(secret, sealingKey, role, openValue(secret, sealingKey, previous))
    delete data[previous]
    const before = recorded[role]?.before
    changed[role] = before === undefined ? {} : { rotation: before }
  }
  return { ...secret, metadata: withRotations(secret, changed), data }
}
