/**
 * The gateway's own certificates: one for Postgres clients that it refuses, and those for HTTPS. The operator stores
 * them in Secrets, as on Kubernetes. It renews them before they expire and when the authority changes. The gateway gets
 * each new certificate at once. Postgres sessions are not affected: an admitted client sees its database's certificate.
 */
import type { Logger } from 'pino'
import type { Cluster, Secret } from '../cluster/index.ts'
import { createInformer } from '../cluster/informer/index.ts'
import { systemNamespace } from '../crds/index.ts'
import { gatewayHttpsSecret, systemCertificates } from '../sealing/credentials.ts'
import type { Certificate } from '../server/certificate.ts'
import { domain, gatewayHost } from './catalogue.ts'

/** The gateway's server names. */
export const gatewayNames = { dnsNames: ['localhost'], ipAddresses: [gatewayHost] }

/** The services' server names for HTTPS, as the operator issues the certificate. */
export const httpsNames = { ...gatewayNames, dnsNames: [`*.${domain}`, ...gatewayNames.dnsNames] }

const followed: readonly string[] = [systemCertificates.gateway, gatewayHttpsSecret]

/** Removes the data of all other Secrets, so that the cache does not hold them. */
function withoutOthers(secret: Secret): Secret {
  const { data: _, ...rest } = secret
  return followed.includes(secret.metadata.name) ? secret : rest
}

const decoded = (text = ''): string => Buffer.from(text, 'base64').toString('utf8')

/** `name`: the name of the certificate's files in the Secret. */
const certificateIn = ({ data = {} }: Secret, name: string): Certificate => ({
  cert: decoded(data[`${name}.crt`]),
  key: decoded(data[`${name}.key`]),
})

/** Certificates of all regions. */
const certificatesIn = (secret: Secret): Certificate[] =>
  Object.keys(secret.data ?? {})
    .filter(key => key.endsWith('.crt'))
    .map(key => certificateIn(secret, key.slice(0, -'.crt'.length)))

/** Calls `use` and `useForHttps` with the gateway's certificates, now and after each change. */
export function followGatewayCertificates({
  cluster,
  use,
  useForHttps,
  logger,
}: {
  cluster: Cluster
  use: (certificate: Certificate) => void
  useForHttps: (certificates: Certificate[]) => void
  logger: Logger
}): { stop(): Promise<void> } {
  const secrets = createInformer(cluster, 'Secret', {
    namespace: systemNamespace,
    transform: withoutOthers,
    logger,
  })
  secrets.onChange(({ type, object }) => {
    if (type === 'deleted') return
    if (object.metadata.name === systemCertificates.gateway) use(certificateIn(object, 'tls'))
    if (object.metadata.name !== gatewayHttpsSecret) return
    const certificates = certificatesIn(object)
    if (certificates.length > 0) useForHttps(certificates)
  })
  // `start` resolves before the first list only if the cache is stopped.
  const started = secrets.start().catch(() => {})
  return {
    stop: async () => {
      await secrets.stop()
      await started
    },
  }
}
