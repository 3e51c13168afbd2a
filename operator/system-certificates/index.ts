/**
 * The certificates of Espalier's own servers (the API and the gateway) and of the clients of database agents, from the
 * installation's authority: issued, renewed after two thirds of their lifetime, and issued again when the configured
 * names or the authority change. The authority's certificate (never its key) is in a ConfigMap beside them, with which
 * clients verify.
 *
 * A Secret with one of these names that Espalier did not create is not changed.
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

/** The names of a server, or the identity of a client. */
type Wanted = ServerNames | { commonName: string }
/** An absent certificate is not issued, or comes from another source. */
export type WantedCertificates = { [C in SystemCertificate]?: Wanted }

/** No event reports that a certificate is due for renewal, or that the ConfigMap was changed. */
const recheckMs = 3600_000

const certificates = Object.keys(systemCertificates) as SystemCertificate[]
const certificateOfAuthority = 'authority'

/** The certificate in the Secret of this name. */
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
    annotations: { [trustAnnotation]: authority.digest },
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

const isManaged = (secret: Secret): boolean => secret.metadata.labels?.[labels.managedBy] === managedByEspalier

export function startSystemCertificates(options: SystemCertificatesOptions): { stop(): Promise<void> } {
  const { caches, keys, wanted, metrics, logger, now, signal } = options
  const cluster = caches.writeThrough(options.cluster)

  const publish = async (authority: Trust) => {
    const draft = configMapDraft(authority)
    const found = await cluster.get('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
    if (!isUpToDate(found, draft)) await cluster.apply('ConfigMap', draft)
  }

  const renew = async (certificate: SystemCertificate, requested: Wanted, authority: Trust) => {
    const name = systemCertificates[certificate]
    const found = caches.systemSecrets.get({ namespace: systemNamespace, name })
    if (found !== undefined && !isManaged(found)) {
      logger.warn({ secret: name }, 'another client manages this certificate; leaving it unchanged')
      return
    }
    if (found !== undefined && isGood(found, authority, requested, now)) return
    await cluster.apply('Secret', secretDraft(certificate, authority, requested, now))
    logger.info({ secret: name, names: requested }, 'a certificate was issued')
  }

  const reconcile = async (key: string) => {
    const { authority } = keys()
    // The write of its Secret triggers an event.
    if (authority === undefined) return undefined
    if (key === certificateOfAuthority) await publish(authority)
    else {
      const certificate = certificateOf(key)
      const requested = certificate && wanted[certificate]
      if (certificate && requested) await renew(certificate, requested, authority)
    }
    return { requeueAfterMs: recheckMs }
  }

  // The authority last: when a client finds it, the certificates are issued.
  const all = [
    ...certificates.filter(certificate => wanted[certificate]).map(name => systemCertificates[name]),
    certificateOfAuthority,
  ]
  const controller = startController({ name: 'system-certificates', workers: 1, reconcile, signal, logger, metrics })
  const unsubscribe = caches.systemSecrets.onChange(() => {
    for (const key of all) controller.enqueue(key)
  })
  for (const key of all) controller.enqueue(key)
  return {
    stop: async () => {
      unsubscribe()
      await controller.stop()
    },
  }
}
