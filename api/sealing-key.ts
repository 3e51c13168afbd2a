/** The installation's key, by which the API opens and seals what Secrets of databases hold. */
import type { Cluster } from '../cluster/index.ts'
import { systemNamespace } from '../crds/index.ts'
import { SealError, sealingKeySecret } from '../sealing/credentials.ts'

export type SealingKey = {
  /** @throws SealError where there is none */
  current: () => Promise<Uint8Array>
  /** Reads it again the next time, as after a value that did not open. */
  forget: () => void
}

export function createSealingKey(cluster: Cluster): SealingKey {
  let known: Promise<Uint8Array> | undefined

  async function read(): Promise<Uint8Array> {
    const secret = await cluster.get('Secret', { namespace: systemNamespace, name: sealingKeySecret })
    const key = Buffer.from(secret?.data?.key ?? '', 'base64')
    if (key.length !== 32) throw new SealError(`the Secret ${sealingKeySecret} holds no key`)
    return key
  }

  return {
    /** Read once; again after a failure, so that a key put back is found. */
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
