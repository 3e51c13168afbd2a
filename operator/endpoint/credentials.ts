/**
 * The credentials Secret: a password for each role, sealed under the installation's key. It is minted by `create` only,
 * so that of two operators one wins and both use the winner's. It is written again only for a rotation, by a guarded `replace`, and
 * the password before stands beside the new one until Postgres is seen to have that: so the one that is valid is never lost.
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
  rotationsOf,
  rotationsSaid,
  SealError,
  seal,
  secretPlace,
} from '../../sealing/credentials.ts'
import { childMetadata, type Owner } from '../objects/ownership.ts'

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
  const opened = (role: DatabaseRole) => openValue(secret, sealingKey, role)
  return { admin: opened('admin'), app: opened('app'), app_read_only: opened('app_read_only') }
}

/** The passwords before the present ones, as long as they are kept. @throws SealError */
export function openPrevious(secret: Secret, sealingKey: Uint8Array): Partial<Passwords> {
  const kept = databaseRoles.filter(role => secret.data?.[previousPassword(role)] !== undefined)
  return Object.fromEntries(kept.map(role => [role, openValue(secret, sealingKey, previousPassword(role))]))
}

const placeIn = ({ metadata: { namespace = '', name } }: Secret, field: string): string =>
  secretPlace(namespace, name, field)

function openValue(secret: Secret, sealingKey: Uint8Array, field: string): string {
  const place = placeIn(secret, field)
  const sealed = secret.data?.[field]
  if (sealed === undefined) throw new SealError(`there is no value at ${place}`)
  return open(sealingKey, place, Buffer.from(sealed, 'base64').toString('utf8'))
}

const sealValue = (secret: Secret, sealingKey: Uint8Array, field: string, value: string): string =>
  Buffer.from(seal(sealingKey, placeIn(secret, field), value)).toString('base64')

const saying = (secret: Secret, changed: Partial<Record<DatabaseRole, RoleRotation>>): Secret['metadata'] => ({
  ...secret.metadata,
  annotations: { ...secret.metadata.annotations, ...rotationsSaid({ ...rotationsOf(secret), ...changed }) },
})

/** The Secret with a new password for each of these roles, and the one before beside it. @throws SealError */
export function rotated(secret: Secret, sealingKey: Uint8Array, rotations: Rotations): Secret {
  const said = rotationsOf(secret)
  const data = { ...secret.data }
  const changed: Partial<Record<DatabaseRole, RoleRotation>> = {}
  for (const role of databaseRoles) {
    const rotation = rotations[role]
    if (rotation === undefined) continue
    const previous = previousPassword(role)
    data[previous] = sealValue(secret, sealingKey, previous, openValue(secret, sealingKey, role))
    data[role] = sealValue(secret, sealingKey, role, mintPassword())
    const before = said[role]?.rotation
    changed[role] = { rotation, ...(before === undefined ? {} : { before }) }
  }
  return { ...secret, metadata: saying(secret, changed), data }
}

/** The Secret without any password before the present one. */
export function withoutPrevious(secret: Secret): Secret {
  const kept = Object.entries(secret.data ?? {}).filter(([field]) => !isPrevious(field))
  const changed = Object.entries(rotationsOf(secret)).map(([role, { rotation }]) => [
    role,
    rotation === undefined ? {} : { rotation },
  ])
  return { ...secret, metadata: saying(secret, Object.fromEntries(changed)), data: Object.fromEntries(kept) }
}

const isPrevious = (field: string): boolean => databaseRoles.some(role => previousPassword(role) === field)

/** The Secret with these roles' passwords as they were before. @throws SealError */
export function takenBack(secret: Secret, sealingKey: Uint8Array, roles: readonly DatabaseRole[]): Secret {
  const said = rotationsOf(secret)
  const data = { ...secret.data }
  const changed: Partial<Record<DatabaseRole, RoleRotation>> = {}
  for (const role of roles) {
    const previous = previousPassword(role)
    data[role] = sealValue(secret, sealingKey, role, openValue(secret, sealingKey, previous))
    delete data[previous]
    const before = said[role]?.before
    changed[role] = before === undefined ? {} : { rotation: before }
  }
  return { ...secret, metadata: saying(secret, changed), data }
}
