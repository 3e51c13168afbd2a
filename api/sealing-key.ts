/** The installation's key. With this key, the API encrypts and decrypts the Secrets of databases. */
import type { Cluster } from '../cluster/index.ts'
import { systemNamespace } from '../crds/index.ts'
import { SealError, sealingKeySecret } from '../sealing/credentials.ts'

export type SealingKey = {
  /** @throws SealError if there is no key */
  current: () => Promise<Uint8Array>
  /** Forces a new read, for example after a value that could not be decrypted. */
  forget: () => void
}

export function createSealingKey(cluster: Cluster): SealingKey {
  let known: Promise<Uint8Array> | undefined

  async function read(): Promise<Uint8Array> {
    const secret = await cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
    const key = Buffer.from(secret?.data?.key ?? '', 'base64')
    if (key.length !== 32) throw new SealError(`the Secret ${sealingKeySecret} contains no key`)
    return key
  }

  return {
    /** Reads the key once. Reads it again after a failure, so that a restored key is found. */
    current: () => {
      if (known === undefined) {
        const reading = read()
        known = reading
        reading.catch(() => {
          if (known === reading) known = undefined
        })
      }
      return known
    },
    forget: () => {
      known = undefined
    },
  }
}
