/** The certificate of a region's services: issued or copied, renewed, and reported if that is not possible. */
import { X509Certificate } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { apiVersion, labels, type Region, systemNamespace } from '../../crds/index.ts'
import { gatewayHttpsSecret } from '../../sealing/credentials.ts'
import type { Operator } from '../index.ts'
import { regionCertificateComponent } from '../keys.ts'
import { createAuthority, issueServerCertificate } from '../pki/index.ts'
import { eventually, type Installation, openInstallation, startTestOperator } from '../testing/installation.ts'
import { httpsNames, regionCertificate } from './certificate.ts'

const authority = createAuthority()
const trust = {
  ...authority,
  bundle: authority.cert,
  known: [authority],
  accepted: authority.cert,
  digest: 'm',
  isChanging: false,
}
const now = () => Date.parse('2026-11-26T00:00:00Z')
const days = (count: number) => () => now() + count * 86_400_000

const region = (spec: Partial<Region['spec']> = {}, domain = 'db.test'): Region => ({
  ...{ apiVersion, kind: 'Region', metadata: { name: 'here' } },
  spec: {
    ...{ domain, gateway: { host: '127.0.0.1', ports: { first: 1, last: 2 }, https: { port: 443 } } },
    ...spec,
  },
})
const encoded = (text: string) => Buffer.from(text).toString('base64')
const secretOf = ({ cert, key }: { cert: string; key: string }, component = regionCertificateComponent) => ({
  ...{ apiVersion: 'v1' as const, kind: 'Secret' as const },
  metadata: { name: 'theirs', namespace: systemNamespace, labels: { [labels.component]: component } },
  data: { 'tls.crt': encoded(cert), 'tls.key': encoded(key) },
})

describe('of the authority of the installation', () => {
  test('is a wildcard for the domain, and has the names for clients that cannot resolve the domain', () => {
    expect(httpsNames(region())).toEqual({ dnsNames: ['*.db.test', 'localhost'], ipAddresses: ['127.0.0.1'] })
    const gateway = { host: 'tcp.test', ports: { first: 1, last: 2 }, https: { port: 443, host: 'https.test' } }
    expect(httpsNames(region({ gateway }))).toEqual({ dnsNames: ['*.db.test', 'https.test'], ipAddresses: [] })
  })

  test('is issued once, and reissued for another domain, another authority and after two thirds of its validity', () => {
    const first = regionCertificate(region(), { authority: trust, stored: undefined }, now)
    expect(first?.finding).toMatchObject({ status: 'False', reason: 'Issuing' })
    const stored = first?.next?.()
    const again = (spec: Region, of = trust, at = now) => regionCertificate(spec, { authority: of, stored }, at)?.next
    expect(regionCertificate(region(), { authority: trust, stored }, now)).toEqual({
      finding: { status: 'True', reason: 'Issued', message: expect.stringContaining('valid until 2027-02-') },
    })
    expect(again(region({}, 'other.test'))).toBeDefined()
    const other = createAuthority()
    expect(again(region(), { ...trust, ...other })).toBeDefined()
    expect(again(region(), trust, days(59))).toBeUndefined()
    expect(again(region(), trust, days(61))).toBeDefined()
  })

  test('does not exist without HTTPS; a missing authority or an invalid domain is reported', () => {
    const gateway = { ports: { first: 1, last: 2 } }
    expect(regionCertificate(region({ gateway }), { authority: trust, stored: undefined }, now)).toBeUndefined()
    const reasonOf = (of: typeof trust | undefined, domain: string) =>
      regionCertificate(region({}, domain), { authority: of, stored: undefined }, now)?.finding.reason
    expect([reasonOf(undefined, 'db.test'), reasonOf(trust, 'no name')]).toEqual([
      'AuthorityMissing',
      'CertificateNotIssued',
    ])
  })
})

describe('named by a region', () => {
  const named = region({ certificate: { secretName: 'theirs' } })
  const pair = issueServerCertificate(createAuthority(now), { dnsNames: ['*.db.test'], days: 30 }, now)
  const find = (secret: ReturnType<typeof secretOf> | undefined, at = now, stored?: typeof pair) =>
    regionCertificate(named, { authority: trust, stored, named: secret }, at)

  test('is copied, and copied again when it changes', () => {
    expect(find(secretOf(pair))?.next?.()).toEqual(pair)
    expect(find(secretOf(pair), now, pair)).toEqual({
      finding: expect.objectContaining({ status: 'True', reason: 'Copied' }),
    })
  })

  test.each<[string, string, RegExp, ReturnType<typeof secretOf> | undefined, (() => number)?]>([
    ['is missing', 'CertificateMissing', /does not exist, or lacks the label/, undefined],
    ['lacks the label', 'CertificateMissing', /lacks the label/, secretOf(pair, 'route')],
    ['is not PEM', 'CertificateInvalid', /PEM/, secretOf({ cert: 'x', key: 'y' })],
    ['has another key', 'CertificateInvalid', /key that does not match/, secretOf({ ...pair, key: authority.key })],
    ['has expired', 'CertificateInvalid', /contains an expired certificate/, secretOf(pair), days(31)],
    [
      ...(['is for another domain', 'CertificateInvalid', /not for \*\.db\.test/] as const),
      secretOf(issueServerCertificate(authority, { dnsNames: ['*.other.test'] }, now)),
    ],
  ])('%s: the previous certificate stays, and the condition reports why', (_, reason, message, secret, at) => {
    const found = find(secret, at, pair)
    expect(found?.next).toBeUndefined()
    expect(found?.finding).toMatchObject({ status: 'False', reason, message: expect.stringMatching(message) })
    expect(found?.finding.message).not.toContain('PRIVATE')
  })
})

describe('in an installation', () => {
  let installation: Installation
  let operator: Operator
  beforeAll(async () => {
    installation = await openInstallation()
    operator = await startTestOperator(installation)
  })
  afterAll(async () => {
    await operator.stop()
    await installation.close()
  })
  const plain = { host: '127.0.0.1', ports: { first: 20_000, last: 29_999 } }
  const stored = async () =>
    (await installation.cluster.get('Secret', { namespace: systemNamespace, name: gatewayHttpsSecret }))?.data
  const conditionOf = async () =>
    (await installation.cluster.get('Region', { name: 'here' }))?.status?.conditions?.find(
      ({ type }) => type === 'CertificateReady',
    )
  /** Retries, because the operator may write the status at the same time. */
  const put = (spec: Partial<Region['spec']>) =>
    eventually(
      async () => {
        const found = await installation.cluster.get('Region', { name: 'here' })
        const next = { domain: 'db.test', gateway: { ...plain, https: { port: 8443 } }, ...spec }
        return await installation.cluster.replace('Region', { ...(found as Region), spec: next }).catch(() => undefined)
      },
      written => written !== undefined,
    )

  test('the Secret follows the region, and its condition reports what is served', async () => {
    await put({ gateway: plain })
    await eventually(conditionOf, found => found === undefined)
    await put({})
    await eventually(conditionOf, found => found?.reason === 'Issued')
    const issued = await stored()
    expect(Object.keys(issued ?? {})).toEqual(['here.crt', 'here.key'])
    const certificate = new X509Certificate(Buffer.from(issued?.['here.crt'] ?? '', 'base64'))
    expect(certificate.checkHost('shop-1.db.test')).toBeDefined()

    await put({ certificate: { secretName: 'theirs' } })
    await eventually(conditionOf, found => found?.reason === 'CertificateMissing')
    expect(await stored()).toEqual(issued)
    const pair = issueServerCertificate(createAuthority(), { dnsNames: ['*.db.test'] })
    await installation.cluster.create('Secret', secretOf(pair))
    await eventually(conditionOf, found => found?.reason === 'Copied')
    expect((await stored())?.['here.crt']).toBe(encoded(pair.cert))

    await put({ gateway: plain })
    await eventually(stored, found => Object.keys(found ?? {}).length === 0)
    await eventually(conditionOf, found => found === undefined)
  })
})
