/**
 * HTTPS certificates that are not replaced yet: the regions' certificates in the gateways' Secret, and the certificates
 * that gateways serve. While a gateway serves a certificate of an old authority, clients must still trust that
 * authority. Pure.
 */
import type { Secret } from '../../cluster/index.ts'
import type { Region } from '../../crds/index.ts'
import { certificatesDigest, type GatewayLease, otherCertificatesAt } from '../../routes/route.ts'
import { type Authority, isIssuedBy } from '../pki/index.ts'
import { storedCertificate } from '../region/certificate.ts'

type Facts = { regions: readonly Region[]; secret: Secret | undefined; gateways: readonly GatewayLease[] }

/**
 * The names of what is not replaced yet, for messages. A gateway of an earlier version does not report what it serves.
 * For such a gateway, only the minimum time of a step gives it time.
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
