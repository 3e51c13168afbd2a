import { expect, test } from 'vitest'
import { apiVersion, type Region } from '../../crds/index.ts'
import { certificatesDigest, type GatewayLease, httpsCertificatesAnnotation } from '../../routes/route.ts'
import { microTime } from '../../values/time.ts'
import { createAuthority, issueServerCertificate } from '../pki/index.ts'
import { httpsBehind } from './https.ts'

const now = Date.parse('2026-01-01T00:00:00Z')
const [old, next] = [createAuthority(() => now), createAuthority(() => now)]
const certificateOf = (authority: typeof old) =>
  issueServerCertificate(authority, { dnsNames: ['*.db.test'], ipAddresses: [] }, () => now)
const [before, after] = [certificateOf(old), certificateOf(next)]

const region = (spec: object = {}): Region => ({
  apiVersion,
  kind: 'Region',
  metadata: { name: 'eu' },
  spec: {
    ...{ name: 'EU', domain: 'db.test', databases: { volumeSize: '1Gi' } },
    ...{ gateway: { host: 'db.test', ports: { first: 1, last: 2 }, https: { port: 443 } }, ...spec },
  } as unknown as Region['spec'],
})
const base64 = (text: string) => Buffer.from(text).toString('base64')
const secretOf = ({ cert, key }: typeof before) => ({
  apiVersion: 'v1' as const,
  kind: 'Secret' as const,
  metadata: { name: 'espalier-gateway-https' },
  data: { 'eu.crt': base64(cert), 'eu.key': base64(key) },
})
const gateway = (name: string, cert: string | undefined, renewedAt = now): GatewayLease => ({
  metadata: {
    name,
    annotations: cert === undefined ? {} : { [httpsCertificatesAnnotation]: certificatesDigest([cert]) },
  },
  spec: { renewTime: microTime(renewedAt) },
})

test('waits for the Secret of gateways, and for each gateway that serves another certificate', () => {
  const behind = (stored: typeof before, served: string | undefined, authority = next, of = region()) =>
    httpsBehind({ regions: [of], secret: secretOf(stored), gateways: [gateway('gateway-1', served)] }, authority, now)
  expect(behind(before, before.cert)).toEqual(['HTTPS of the region eu'])
  expect(behind(after, before.cert)).toEqual(['the gateway gateway-1'])
  expect(behind(after, after.cert)).toEqual([])
  expect(behind(before, before.cert, old)).toEqual([])
  // A gateway of an earlier version does not report its certificates.
  expect(behind(after, undefined)).toEqual([])
  // A user's own certificate was not signed by Espalier's authority.
  expect(behind(before, before.cert, next, region({ certificate: { secretName: 'mine' } }))).toEqual([])
})

test('waits for a certificate that does not exist yet, but not for a deleted gateway', () => {
  const regions = [region()]
  expect(httpsBehind({ regions, secret: undefined, gateways: [] }, next, now)).toEqual(['HTTPS of the region eu'])
  const leaving = gateway('gateway-1', before.cert, now - 3600_000)
  expect(httpsBehind({ regions, secret: secretOf(after), gateways: [leaving] }, next, now)).toEqual([])
})

test('installations without HTTPS wait for nothing', () => {
  const regions = [region({ gateway: { host: 'db.test', ports: { first: 1, last: 2 } } })]
  expect(httpsBehind({ regions, secret: undefined, gateways: [gateway('g', before.cert)] }, next, now)).toEqual([])
})
