/**
 * The keys that tokens are signed with, kept in the state so that several bridges sign with one. They are sealed with a secret that the state does not have: who reads the state can sign
 * nothing. Each key is a record with a number; the newest signs.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'
import { keySchema, makeKey, mostKeys, type SigningKeys, type StoredKey, signingKeysOf } from './keys.ts'
import type { RawStore } from './records.ts'

const kind = 'signing_key'
const lifetimeMs = 3_650 * 86_400_000
const [nonceBytes, tagBytes] = [12, 16]

/** What seals the keys, and where they are: keys that were sealed with another secret have other places. */
function vaultOf(secret: string) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'espalier mcp-bridge signing keys', 32))
  const name = createHash('sha256').update(key).digest('base64url').slice(0, 16)
  const place = (number: number) => `${name}:${number}`
  return {
    place,
    seal(stored: StoredKey, number: number): string {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes }).setAAD(
        Buffer.from(place(number)),
      )
      const sealed = [nonce, cipher.update(JSON.stringify(stored), 'utf8'), cipher.final(), cipher.getAuthTag()]
      return Buffer.concat(sealed).toString('base64')
    },
    open(sealed: string, number: number): StoredKey {
      const bytes = Buffer.from(sealed, 'base64')
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
      decipher.setAAD(Buffer.from(place(number))).setAuthTag(bytes.subarray(-tagBytes))
      const opened = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()])
      return keySchema.parse(JSON.parse(opened.toString()))
    },
  }
}

/** The newest is first. */
async function readKeys(store: RawStore, vault: ReturnType<typeof vaultOf>): Promise<StoredKey[]> {
  const found: StoredKey[] = []
  for (;;) {
    const sealed = await store.get(kind, vault.place(found.length), Date.now())
    if (sealed === undefined) return found.reverse()
    found.push(vault.open(sealed, found.length))
  }
}

/** Of several bridges that add a key of this number at once, one does. */
async function add(store: RawStore, vault: ReturnType<typeof vaultOf>, key: StoredKey, number: number): Promise<void> {
  await store.insert(kind, vault.place(number), vault.seal(key, number), Date.now() + lifetimeMs, '')
}

/** Creates a key where there is none. @throws what the store throws; Error where a key has been changed */
export async function loadKeysInState(store: RawStore, secret: string): Promise<SigningKeys> {
  const vault = vaultOf(secret)
  const before = await readKeys(store, vault)
  if (before.length > 0) return signingKeysOf(before.slice(0, mostKeys))
  await add(store, vault, await makeKey(), 0)
  return signingKeysOf((await readKeys(store, vault)).slice(0, mostKeys))
}

/** A new key signs from the next start on. @returns its id */
export async function rotateKeysInState(store: RawStore, secret: string): Promise<string> {
  const vault = vaultOf(secret)
  const key = await makeKey()
  await add(store, vault, key, (await readKeys(store, vault)).length)
  return key.kid
}
