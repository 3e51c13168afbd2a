/**
 * The certificates of Espalier's own servers, the API and the gateway, from the installation's authority: issued, renewed
 * after two thirds of their life, and issued anew when the names asked for or the authority change. Beside them the
 * authority's certificate (never its key) stands in a ConfigMap, for clients to verify with.
 *
 * A Secret under one of these names that Espalier did not make is left alone.
 */
// @ts-nocheck

import type { Draft, Secret } from '../../cluster/index.ts'
import { startController } from '../../controller/index.ts'
import { labels, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { authorityConfigMap, type SystemServer, systemCertificates } from '../../sealing/credentials.ts'
import type { Trust } from '../authority/state.ts'
import type { ControllerOptions } from '../controller-options.ts'
import type { InstallationKeys } from '../keys.ts'
import { isUpToDate, stamped } from '../objects/up-to-date.ts'
import { issueServerCertificate } from '../pki/index.ts'
import { tlsSecret } from '../pki/secret.ts'
import { isGoodCertificate, type ServerNames, trustAnnotation } from '../workload/children/certificate.ts'

type SystemCertificatesOptions = ControllerOptions & {
  keys: () => InstallationKeys
  /** What each server answers to; of one that is absent the certificate comes from elsewhere. */
  wanted: { [S in SystemServer]?: ServerNames | undefined }
}

/** No event says that a certificate has grown old, or that somebody changed the ConfigMap. */
const lookAgainMs = 3600_000

const servers = Object.keys(systemCertificates) as SystemServer[]
const certificateOfAuthority = 'authority'

/** The server whose certificate a Secret of this name holds. */
const serverOf = (secretName: string): SystemServer | undefined =>
  servers.find(server => systemCertificates[server] === secretName)

const ownLabels = { [labels.managedBy]: managedByEspalier }

function secretDraft(server: SystemServer, authority: Trust, names: ServerNames, now: () => number): Draft<'Secret'> {
  const metadata = {
    name: systemCertificates[server],
    namespace: systemNamespace,
    labels: ownLabels,
    annotations: { [trustAnnotation]: authority.mark },
  }
  return tlsSecret(metadata, { ...issueServerCertificate(authority, names, now), trust: authority.bundle })
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

  const renew = async (server: SystemServer, names: ServerNames, authority: Trust) => {
    const name = systemCertificates[server]
    const found = caches.systemSecrets.get({ namespace: systemNamespace, name })
    if (found !== undefined && !isOurs(found)) {
      logger.warn({ secret: name }, 'somebody else manages this certificate; leaving it alone')
      return
    }
    if (found !== undefined && isGoodCertificate(found, authority, names, now)) return
    await cluster.apply('Secret', secretDraft(server, authority, names, now))
    logger.info({ secret: name, names }, 'a certificate was issued')
  }

  const reconcile = async (key: string) => {
    const { authority } = keys()
    // Its Secret coming back is an event.
    if (authority === undefined) return undefined
    if (key === certificateOfAuthority) await publish(authority)
    else {
      const server = serverOf(key)
      const names = server && wanted[server]
      if (server && names) await renew(server, names, authority)
    }
    return { requeueAfterMs: lookAgainMs }
  }

  // The authority last: who finds it published finds the certificates done.
  const all = [
    ...servers.filter(server => wanted[server]).map(name => systemCertificates[name]),
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
