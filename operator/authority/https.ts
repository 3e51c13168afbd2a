/**
 * HTTPS certificates that have not been replaced yet: those of regions in the gateways' Secret, and those that gateways
 * serve. While one of an old authority is served, clients must continue to trust it. Pure.
 */
import type { Secret } from '../../cluster/index.ts'
import type { Region } from '../../crds/index.ts'
import { certificatesDigest, type GatewayLease, otherCertificatesAt } from '../../routes/route.ts'
import { type Authority, isIssuedBy } from '../pki/index.ts'
import { storedCertificate } from '../region/certificate.ts'

type Facts = { regions: readonly Region[]; secret: Secret | undefined; gateways: readonly GatewayLease[] }

/**
 * Their names, for messages. A gateway of an earlier version does not report what it serves; the step's minimum time
 * has to be enough for it.
 */
export function httpsBehind({ regions, secret, gateways }: Facts, authority: Authority, now: number): string[] {
  const issued = regions.filter(({ spec }) => spec.gateway.https !== undefined && spec.certificate === undefined)
  if (issued.length === 0) return []
  const old = issued.filter(({ metadata: { name } }) => {
    const stored = storedCertificate(secret, name)
    return stored === undefined || !isIssuedBy(authority, stored)
  })
  const texts = Object.entries(secret?.data ?? {}).filter(([key]) => key.endsWith('.crt'))
  const digest = certificatesDigest(texts.map(([, text]) => Buffer.from(text, 'base64').toString('utf8')))
  return [
    ...old.map(({ metadata: { name } }) => `HTTPS of the region ${name}`),
    ...otherCertificatesAt(digest, gateways, now).map(name => `the gateway ${name}`),
  ]
}
