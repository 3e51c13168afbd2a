/**
 * The certificates of Espalier's own servers, the API and the gateway, and of those who ask the agents of databases, from the
 * installation's authority: issued, renewed after two thirds of their life, and issued anew when the names asked for or the
 * authority change. Beside them the
 * authority's certificate (never its key) stands in a ConfigMap, for clients to verify with.
 *
 * A Secret under one of these names that Espalier did not make is left alone.
 */
import type { Draft, Secret } from '../../cluster/index.ts'
import { startController } from '../../controller/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { authorityConfigMap, type SystemCertificate, systemCertificates } from '../../sealing/credentials.ts'
import type { ControllerOptions } from '../controller-options.ts'
import { isGoodCertificate, isGoodClient, type ServerNames, trustAnnotation } from '../endpoint/certificate.ts'
import type { InstallationKeys } from '../keys.ts'
import { isUpToDate, stamped } from '../objects/up-to-date.ts'
import { type CertifiedKey, issueClientCertificate, issueServerCertificate } from '../pki/index.ts'
import { tlsSecret } from '../pki/secret.ts'
import type { Trust } from '../pki/trust.ts'

type SystemCertificatesOptions = ControllerOptions & {
  keys: () => InstallationKeys
  wanted: WantedCertificates
}

/** What a server answers to, or who a client is. */
type Wanted = ServerNames | { commonName: string }
/** One that is absent is not there, or comes from elsewhere. */
export type WantedCertificates = { [C in SystemCertificate]?: Wanted }

/** No event says that a certificate has grown old, or that somebody changed the ConfigMap. */
const lookAgainMs = 3600_000

const certificates = Object.keys(systemCertificates) as SystemCertificate[]
const certificateOfAuthority = 'authority'

/** Which one a Secret of this name holds. */
const certificateOf = (secretName: string): SystemCertificate | undefined =>
  certificates.find(certificate => systemCertificates[certificate] === secretName)

const ownLabels = { [labels.managedBy]: managedByEspalier }

const clientDays = 90

const issue = (authority: Trust, wanted: Wanted, now: () => number): CertifiedKey =>
  'commonName' in wanted
    ? issueClientCertificate(authority, { ...wanted, days: clientDays }, now)
    : issueServerCertificate(authority, wanted, now)

const isGood = (secret: Secret, authority: Trust, wanted: Wanted, now: () => number): boolean =>
  'commonName' in wanted
    ? isGoodClient(secret, authority, wanted, now)
    : isGoodCertificate(secret, authority, wanted, now)

function secretDraft(
  certificate: SystemCertificate,
  authority: Trust,
  wanted: Wanted,
  now: () => number,
): Draft<'Secret'> {
  const metadata = {
    name: systemCertificates[certificate],
    namespace: systemNamespace,
    labels: ownLabels,
    annotations: { [trustAnnotation]: authority.mark },
  }
  return tlsSecret(metadata, { ...issue(authority, wanted, now), trust: authority.bundle })
}

const configMapDraft = (authority: Trust): Draft<'ConfigMap'> =>
  stamped({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: authorityConfigMap, namespace: systemNamespace, labels: ownLabels },
    data: { 'ca.crt': authority.bundle },
  })

const isOurs = (secret: Secret): boolean => secret.metadata.labels?.[labels.managedBy] === managedByEspalier

export function startSystemCertificates(options: SystemCertificatesOptions): { stop(): Promise<void> } {
  const { caches, keys, wanted, metrics, logger, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)

  const publish = async (authority: Trust) => {
    const draft = configMapDraft(authority)
    const found = await cluster.get('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
    if (!isUpToDate(found, draft)) await cluster.apply('ConfigMap', draft)
  }

  const renew = async (certificate: SystemCertificate, asked: Wanted, authority: Trust) => {
    const name = systemCertificates[certificate]
    const found = caches.systemSecrets.get({ namespace: systemNamespace, name })
    if (found !== undefined && !isOurs(found)) {
      logger.warn({ secret: name }, 'somebody else manages this certificate; leaving it alone')
      return
    }
    if (found !== undefined && isGood(found, authority, asked, now)) return
    await cluster.apply('Secret', secretDraft(certificate, authority, asked, now))
    logger.info({ secret: name, names: asked }, 'a certificate was issued')
  }

  const reconcile = async (key: string) => {
    const { authority } = keys()
    // Its Secret coming back is an event.
    if (authority === undefined) return undefined
    if (key === certificateOfAuthority) await publish(authority)
    else {
      const certificate = certificateOf(key)
      const asked = certificate && wanted[certificate]
      if (certificate && asked) await renew(certificate, asked, authority)
    }
    return { requeueAfterMs: lookAgainMs }
  }

  // The authority last: who finds it published finds the certificates done.
  const all = [
    ...certificates.filter(certificate => wanted[certificate]).map(name => systemCertificates[name]),
    certificateOfAuthority,
  ]
  const controller = startController({ name: 'system-certificates', workers: 1, reconcile, signal, logger, metrics })
  const unfollow = caches.systemSecrets.onChange(() => {
    for (const key of all) controller.enqueue(key)
  })
  for (const key of all) controller.enqueue(key)
  return {
    stop: async () => {
      unfollow()
      await controller.stop()
    },
  }
}
