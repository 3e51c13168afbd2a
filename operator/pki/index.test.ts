import { X509Certificate } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { connect, createServer } from 'node:tls'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import * as der from './der.ts'
import {
  type CertifiedKey,
  createAuthority,
  isAuthority,
  isIssuedBy,
  issueClientCertificate,
  issueServerCertificate,
  needsRenewal,
} from './index.ts'

const day = 86_400_000
const noon = Date.UTC(2026, 5, 1, 12)
const at = (time: number) => () => time

/** OpenSSL's own verification, in both directions: whether client and server accept each other. */
async function handshake(
  server: CertifiedKey,
  client: Partial<CertifiedKey>,
  ca: string,
  servername: string,
): Promise<{ client: string; server: string }> {
  const listener = createServer({ ...server, ca, requestCert: true, rejectUnauthorized: false })
  await new Promise<void>(resolve => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as AddressInfo // the address of a TCP server
  try {
    return await new Promise(resolve => {
      const errors = { client: '', server: '' }
      const socket = connect({ ...client, port, host: '127.0.0.1', servername, ca, rejectUnauthorized: false })
      const finish = () => {
        if (errors.client !== '' && errors.server !== '') resolve(errors)
      }
      // Node declares Error; the values are OpenSSL's names.
      const opinion = (error: unknown) => (error === null || error === undefined ? 'accepted' : String(error))
      socket.on('secureConnect', () => {
        errors.client = opinion(socket.authorizationError)
        finish()
      })
      listener.on('secureConnection', peer => {
        errors.server = opinion(peer.authorizationError)
        finish()
        peer.on('error', () => {})
        socket.end()
      })
    })
  } finally {
    listener.close()
  }
}

describe('certificates', () => {
  const authority = createAuthority()
  const server = issueServerCertificate(authority, { dnsNames: ['db.test.svc'], ipAddresses: ['127.0.0.1', 'fd00::1'] })
  const client = issueClientCertificate(authority, { commonName: 'espalier-operator' })

  test('are accepted for their purpose', async () => {
    const errors = await handshake(server, client, authority.cert, 'db.test.svc')
    expect(errors).toEqual({ client: 'accepted', server: 'accepted' })
  })

  test('are refused for another purpose', async () => {
    const { cert: ca } = authority
    expect((await handshake(server, client, ca, 'other.test.svc')).client).toMatch(/ERR_TLS_CERT_ALTNAME_INVALID/)
    expect((await handshake(server, server, ca, 'db.test.svc')).server).toMatch(/PURPOSE/)
    expect((await handshake(client, client, ca, 'espalier-operator')).client).toMatch(/PURPOSE/)
    const other = createAuthority()
    expect((await handshake(server, client, other.cert, 'db.test.svc')).client).not.toBe('accepted')
    const impostor = issueClientCertificate(other, { commonName: 'espalier-operator' })
    expect((await handshake(server, impostor, ca, 'db.test.svc')).server).not.toBe('accepted')
    // A leaf certificate cannot sign: a certificate signed with it has no valid chain.
    const forged = issueClientCertificate({ cert: ca, key: server.key }, { commonName: 'espalier-operator' })
    expect((await handshake(server, forged, ca, 'db.test.svc')).server).not.toBe('accepted')
  })

  test('contain their names and key usages', () => {
    const read = new X509Certificate(server.cert)
    expect(read.subjectAltName).toBe('DNS:db.test.svc, IP Address:127.0.0.1, IP Address:FD00:0:0:0:0:0:0:1')
    expect(read.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1'])
    expect(read.ca).toBe(false)
    expect(new X509Certificate(authority.cert).ca).toBe(true)
    expect(read.checkIssued(new X509Certificate(authority.cert))).toBe(true)
  })

  test('are valid for 90 days, 24 hours and ten years, starting two hours ago', () => {
    const lifetime = ({ cert }: CertifiedKey): number[] => {
      const { validFromDate, validToDate } = new X509Certificate(cert)
      return [noon - validFromDate.getTime(), (validToDate.getTime() - validFromDate.getTime()) / day]
    }
    const root = createAuthority(at(noon))
    expect(lifetime(root)).toEqual([7_200_000, 3652])
    expect(lifetime(issueServerCertificate(root, { dnsNames: ['a'] }, at(noon)))).toEqual([7_200_000, 90])
    expect(lifetime(issueClientCertificate(root, { commonName: 'a' }, at(noon)))).toEqual([7_200_000, 1])
  })

  test('expire no later than their authority', () => {
    const old = createAuthority(at(noon - 3640 * day))
    const leaf = issueServerCertificate(old, { dnsNames: ['a'] }, at(noon))
    expect(new X509Certificate(leaf.cert).validTo).toBe(new X509Certificate(old.cert).validTo)
  })

  test('have random serial numbers', () => {
    const serials = Array.from({ length: 50 }, () => {
      const { cert } = issueClientCertificate(authority, { commonName: 'a' })
      return new X509Certificate(cert).serialNumber
    })
    expect(new Set(serials).size).toBe(50)
  })

  test('are due for renewal after two thirds of their validity', () => {
    const from = noon - 7_200_000
    const { cert } = issueServerCertificate(createAuthority(at(noon)), { dnsNames: ['a'] }, at(noon))
    expect(needsRenewal(cert, at(from + 60 * day - 1))).toBe(false)
    expect(needsRenewal(cert, at(from + 60 * day))).toBe(true)
    expect(needsRenewal(cert, at(from - 1))).toBe(true)
    expect(needsRenewal('nonsense', at(noon))).toBe(true)
  })

  test('match only their own authority and key', () => {
    expect(isIssuedBy(authority, server)).toBe(true)
    expect(isIssuedBy(createAuthority(), server)).toBe(false)
    expect(isIssuedBy(authority, { cert: server.cert, key: client.key })).toBe(false)
    expect(isIssuedBy(authority, { cert: '', key: '' })).toBe(false)
  })

  test.each([
    [{ dnsNames: [] }, 'needs a DNS name'],
    [{ dnsNames: ['a b'] }, 'not a DNS name'],
    [{ dnsNames: ['a\nb'] }, 'not a DNS name'],
    [{ dnsNames: ['a'], ipAddresses: ['1.2.3'] }, 'not an IP address'],
  ])('with invalid names are refused: %j', (request, message) => {
    expect(() => issueServerCertificate(authority, request)).toThrow(message)
  })

  test('are signed only by an authority that Espalier created', () => {
    expect(() => issueClientCertificate(server, { commonName: 'a' })).toThrow('not created by Espalier')
  })
})

describe('encoding', () => {
  test('writes lengths of one and of several bytes (X.690, 8.1.3)', () => {
    expect(der.octetString(Buffer.alloc(127)).subarray(0, 2)).toEqual(Buffer.of(4, 127))
    expect(der.octetString(Buffer.alloc(128)).subarray(0, 3)).toEqual(Buffer.of(4, 0x81, 128))
    expect(der.octetString(Buffer.alloc(70_000)).subarray(0, 5)).toEqual(Buffer.of(4, 0x83, 1, 0x11, 0x70))
  })

  test('writes integers in their shortest form and never negative', () => {
    const content = (bytes: Uint8Array) => der.integer(bytes).subarray(2).toString('hex')
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 20 }), bytes => {
        const written = content(bytes)
        expect(BigInt(`0x${written}`)).toBe(BigInt(`0x${Buffer.from(bytes).toString('hex')}`))
        expect(Number.parseInt(written.slice(0, 2), 16)).toBeLessThan(0x80)
        if (written.length > 2 && written.startsWith('00')) {
          expect(Number.parseInt(written.slice(2, 4), 16)).toBeGreaterThanOrEqual(0x80)
        }
      }),
    )
  })

  test('writes times as RFC 5280 requires', () => {
    expect(der.time(Date.UTC(2049, 11, 31, 23, 59, 59)).toString('latin1')).toBe('\x17\x0d491231235959Z')
    expect(der.time(Date.UTC(2050, 0, 1)).toString('latin1')).toBe('\x18\x0f20500101000000Z')
  })

  test('writes object identifiers', () => {
    expect(der.objectIdentifier('1.2.840.10045.4.3.2').toString('hex')).toBe('06082a8648ce3d040302')
  })
})

describe('two authorities of the same name', () => {
  const [old, young] = [createAuthority(), createAuthority()]
  const serverOf = (authority: CertifiedKey) => issueServerCertificate(authority, { dnsNames: ['db.test.svc'] })
  const clientOf = (authority: CertifiedKey) => issueClientCertificate(authority, { commonName: 'espalier-operator' })

  test.each([
    ['old', 'young', [old, young], old, young],
    ['young', 'old', [old, young], young, old],
    ['old', 'young', [young, old], old, young],
    ['young', 'old', [young, old], young, old],
  ] as const)(
    'are valid in one bundle: a server of the %s and a client of the %s one trust each other',
    async (...given) => {
      const [, , bundle, ofServer, ofClient] = given
      const ca = bundle.map(({ cert }) => cert).join('')
      const errors = await handshake(serverOf(ofServer), clientOf(ofClient), ca, 'db.test.svc')
      expect(errors).toEqual({ client: 'accepted', server: 'accepted' })
    },
  )

  test('one alone does not verify certificates of the other', async () => {
    const errors = await handshake(serverOf(old), clientOf(old), young.cert, 'db.test.svc')
    expect(Object.values(errors)).not.toContain('accepted')
  })

  test.each<[string, CertifiedKey, boolean]>([
    ['an authority', old, true],
    ['one with the key of another', { cert: old.cert, key: young.key }, false],
    ['a certificate that it signed', serverOf(old), false],
    ['no certificate', { cert: 'a', key: 'b' }, false],
  ])('recognises %s', (_, pair, expected) => expect(isAuthority(pair)).toBe(expected))
})
