/**
 * Maintains the Secret with the gateway's HTTPS certificates: a certificate and key for each region, issued or copied.
 * They are keys of one Secret, so that the gateway can mount it whatever regions exist. If another owner created a
 * Secret with this name, it is not changed.
 */
import type { Draft, Secret } from '../../cluster/index.ts'
import { startController } from '../../controller/index.ts'
import { canonicalJson, labels, managedByEspalier, type Region, systemNamespace } from '../../crds/index.ts'
import { gatewayHttpsSecret } from '../../sealing/credentials.ts'
import type { ControllerOptions } from '../controller-options.ts'
import type { InstallationKeys } from '../keys.ts'
import type { CertifiedKey } from '../pki/index.ts'
import { regionCertificate, storedCertificate } from './certificate.ts'

/** No event reports that a certificate is due for renewal. */
const recheckMs = 3600_000
const key = gatewayHttpsSecret

const ownLabels = { [labels.managedBy]: managedByEspalier }

const isManaged = (secret: Secret): boolean => secret.metadata.labels?.[labels.managedBy] === managedByEspalier

const encoded = (text: string): string => Buffer.from(text).toString('base64')

const draftOf = (pairs: ReadonlyMap<string, CertifiedKey>): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'Opaque',
  metadata: { name: gatewayHttpsSecret, namespace: systemNamespace, labels: ownLabels },
  data: Object.fromEntries(
    [...pairs].flatMap(([region, pair]) => [
      [`${region}.crt`, encoded(pair.cert)],
      [`${region}.key`, encoded(pair.key)],
    ]),
  ),
})

export function startHttpsCertificates(options: ControllerOptions & { keys: () => InstallationKeys }): {
  stop(): Promise<void>
} {
  const { caches, keys, metrics, logger, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)
  const secretNamed = (name: string) => caches.systemSecrets.get({ namespace: systemNamespace, name })

  const pairOf = (region: Region, found: Secret | undefined): CertifiedKey | undefined => {
    const { name } = region.metadata
    const stored = storedCertificate(found, name)
    const named = region.spec.certificate && secretNamed(region.spec.certificate.secretName)
    const certificate = regionCertificate(region, { authority: keys().authority, stored, named }, now)
    return certificate && (certificate.next?.() ?? stored)
  }

  const reconcile = async () => {
    const found = secretNamed(gatewayHttpsSecret)
    if (found !== undefined && !isManaged(found)) {
      logger.warn(
        { secret: gatewayHttpsSecret },
        'another owner manages this Secret, so the operator does not change it',
      )
      return { requeueAfterMs: recheckMs }
    }
    const pairs = new Map<string, CertifiedKey>()
    for (const region of caches.regions.list()) {
      const pair = pairOf(region, found)
      if (pair !== undefined) pairs.set(region.metadata.name, pair)
    }
    const draft = draftOf(pairs)
    if (canonicalJson(draft.data ?? {}) !== canonicalJson(found?.data ?? {})) {
      await cluster.apply('Secret', draft)
      logger.info({ regions: [...pairs.keys()] }, 'the certificates for HTTPS have changed')
    }
    return { requeueAfterMs: recheckMs }
  }

  const controller = startController({ name: 'https-certificates', workers: 1, reconcile, signal, logger, metrics })
  const enqueue = (): void => controller.enqueue(key)
  const unsubscribe = [caches.systemSecrets.onChange(enqueue), caches.regions.onChange(enqueue)]
  enqueue()
  return {
    stop: async () => {
      for (const end of unsubscribe) end()
      await controller.stop()
    },
  }
}
