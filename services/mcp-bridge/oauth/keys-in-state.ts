/**
 * Signing keys in the state, so that several bridges sign with the same key. A secret that is not in the state encrypts
 * them, so reading the state is not enough to sign tokens. Each key is a numbered record. The newest key signs.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto'
import { keySchema, makeKey, mostKeys, type SigningKeys, type StoredKey, signingKeysOf } from './keys.ts'
import type { RawStore } from './records.ts'

const kind = 'signing_key'
const lifetimeMs = 3_650 * 86_400_000
const [nonceBytes, tagBytes] = [12, 16]

/** Encrypts keys and names their records. With another secret, the records have other names. */
function vaultOf(secret: string) {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'espalier mcp-bridge signing keys', 32))
  const name = createHash('sha256').update(key).digest('base64url').slice(0, 16)
  const nameOf = (number: number) => `${name}:${number}`
  return {
    nameOf,
    seal(stored: StoredKey, number: number): string {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes }).setAAD(
        Buffer.from(nameOf(number)),
      )
      const sealed = [nonce, cipher.update(JSON.stringify(stored), 'utf8'), cipher.final(), cipher.getAuthTag()]
      return Buffer.concat(sealed).toString('base64')
    },
    open(sealed: string, number: number): StoredKey {
      const bytes = Buffer.from(sealed, 'base64')
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
      decipher.setAAD(Buffer.from(nameOf(number))).setAuthTag(bytes.subarray(-tagBytes))
      const opened = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()])
      return keySchema.parse(JSON.parse(opened.toString()))
    },
  }
}

/** Returns the newest key first. */
async function readKeys(store: RawStore, vault: ReturnType<typeof vaultOf>): Promise<StoredKey[]> {
  const found: StoredKey[] = []
  for (;;) {
    const sealed = await store.get(kind, vault.nameOf(found.length), Date.now())
    if (sealed === undefined) return found.reverse()
    found.push(vault.open(sealed, found.length))
  }
}

/** If several bridges add this number at the same time, the store keeps the first key. */
async function add(store: RawStore, vault: ReturnType<typeof vaultOf>, key: StoredKey, number: number): Promise<void> {
  await store.insert(kind, vault.nameOf(number), vault.seal(key, number), Date.now() + lifetimeMs, '')
}

/** Creates a key if the state has none. @throws errors of the store; Error if a key was modified */
export async function loadKeysInState(store: RawStore, secret: string): Promise<SigningKeys> {
  const vault = vaultOf(secret)
  const before = await readKeys(store, vault)
  if (before.length > 0) return signingKeysOf(before.slice(0, mostKeys))
  await add(store, vault, await makeKey(), 0)
  return signingKeysOf((await readKeys(store, vault)).slice(0, mostKeys))
}

/** Adds a key, which signs after the next start. Returns the key's id. */
export async function rotateKeysInState(store: RawStore, secret: string): Promise<string> {
  const vault = vaultOf(secret)
  const key = await makeKey()
  await add(store, vault, key, (await readKeys(store, vault)).length)
  return key.kid
}
