/**
 * The gateway's own certificate, which clients that it refuses see. The operator keeps it in a Secret, as on Kubernetes:
 * renewed in time, and issued anew when another authority signs. The gateway has each as soon as it stands there; sessions
 * are not its business, since an admitted client sees its database's certificate.
 */
import type { Logger } from 'pino'
import type { Cluster, Secret } from '../cluster/index.ts'
import { createInformer } from '../cluster/informer/index.ts'
import { systemNamespace } from '../crds/index.ts'
import { systemCertificates } from '../sealing/credentials.ts'
import type { Certificate } from '../server/certificate.ts'
import { gatewayHost } from './catalogue.ts'

/** What the gateway answers to. */
export const gatewayNames = { dnsNames: ['localhost'], ipAddresses: [gatewayHost] }

const name = systemCertificates.gateway

/** Of the system's Secrets no other is kept. */
function withoutOthers(secret: Secret): Secret {
  const { data: _, ...rest } = secret
  return secret.metadata.name === name ? secret : rest
}

function certificateIn({ data = {} }: Secret): Certificate {
  const text = (key: string) => Buffer.from(data[key] ?? '', 'base64').toString('utf8')
  return { cert: text('tls.crt'), key: text('tls.key') }
}

/** Calls `use` with what is kept as the gateway's certificate, now and after each change. */
export function followGatewayCertificate({
  cluster,
  use,
  logger,
}: {
  cluster: Cluster
  use: (certificate: Certificate) => void
  logger: Logger
}): { stop(): Promise<void> } {
  const secrets = createInformer(cluster, 'Secret', {
    namespace: systemNamespace,
    transform: withoutOthers,
    logger,
  })
  secrets.onChange(({ type, object }) => {
    if (type === 'deleted' || object.metadata.name !== name) return
    use(certificateIn(object))
  })
  // It ends before its first list only where it is stopped.
  const started = secrets.start().catch(() => {})
  return {
    stop: async () => {
      await secrets.stop()
      await started
    },
  }
}
