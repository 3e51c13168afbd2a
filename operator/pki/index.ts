/**
 * The installation's certificate authority (RFC 5280). It signs the certificate of every Postgres, which clients and
 * the operator verify. It also signs the client certificates with which the operator logs in. Keys are ECDSA P-256.
 * Inputs and results are PEM (certificates, and PKCS #8 keys).
 *
 * This module encodes certificates, and Node's crypto signs them. The available library needs a global metadata
 * polyfill that is not installed, and takes 130 ms to load. A certificate is only sixty lines of DER. Node's
 * X509Certificate reads certificates.
 */
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto'
import { isIPv4, isIPv6 } from 'node:net'
import * as der from './der.ts'

/** A certificate and its private key, PEM, with the names of Node's TLS options. */
export type CertifiedKey = { cert: string; key: string }
/** A certificate that may sign others. Its key permits a login as the operator everywhere. */
export type Authority = CertifiedKey

type ServerCertificateRequest = {
  /** The names of the server; the first is also the common name. */
  dnsNames: readonly string[]
  ipAddresses?: readonly string[]
  days?: number
}
type ClientCertificateRequest = {
  commonName: string
  /** Other names of the client, for example `urn:espalier:archive:<id>:<incarnation>`. */
  uris?: readonly string[]
  days?: number
}

const dayMs = 86_400_000
/**
 * Clocks differ, by an hour if a time zone is wrong. So a certificate is already valid some time before its creation.
 */
const backdatedMs = 2 * 3600_000
const authorityDays = 3652
const serverDays = 90
const clientDays = 1

const oid = {
  commonName: '2.5.4.3',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extendedKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
  clientAuth: '1.3.6.1.5.5.7.3.2',
} as const

const signatureAlgorithm = der.sequence(der.objectIdentifier(oid.ecdsaWithSha256))

const distinguishedName = (commonName: string): Buffer =>
  der.sequence(der.set(der.sequence(der.objectIdentifier(oid.commonName), der.utf8String(commonName))))

const extension = (identifier: string, value: Uint8Array, critical = false): Buffer =>
  der.sequence(der.objectIdentifier(identifier), ...(critical ? [der.boolean(true)] : []), der.octetString(value))

/** RFC 5280, 4.2.1.2, method 1: the SHA-1 of the public key's bits (a P-256 point is the last 65 bytes of its SPKI). */
const keyIdentifier = (publicKey: KeyObject): Buffer =>
  createHash('sha1')
    .update(publicKey.export({ type: 'spki', format: 'der' }).subarray(-65))
    .digest()

const addressBytes = (address: string): Buffer => {
  if (isIPv4(address)) return Buffer.from(address.split('.').map(Number))
  if (!isIPv6(address)) throw new RangeError(`${JSON.stringify(address)} is not an IP address`)
  // The URL parser writes an IPv6 address in its canonical form. It also writes an embedded IPv4 address in
  // hexadecimal.
  const canonical = new URL(`http://[${address}]`).hostname.slice(1, -1)
  const [head = '', tail] = canonical.split('::')
  const groups = (text: string): string[] => (text === '' ? [] : text.split(':'))
  const middle = tail === undefined ? 0 : 8 - groups(head).length - groups(tail).length
  const all = [...groups(head), ...Array<string>(middle).fill('0'), ...groups(tail ?? '')]
  return Buffer.from(all.map(group => group.padStart(4, '0')).join(''), 'hex')
}

const dnsBytes = (name: string): Buffer => {
  if (!/^[a-z0-9*]([a-z0-9.-]{0,251}[a-z0-9])?$/i.test(name)) {
    throw new RangeError(`${JSON.stringify(name)} is not a DNS name`)
  }
  return Buffer.from(name, 'ascii')
}

const uriBytes = (uri: string): Buffer => {
  if (!/^[a-z][a-z0-9+.-]*:[!-~]{1,200}$/.test(uri)) throw new RangeError(`${JSON.stringify(uri)} is not a URI`)
  return Buffer.from(uri, 'ascii')
}

type Contents = {
  commonName: string
  issuer: string
  validFrom: number
  validUntil: number
  publicKey: KeyObject
  signingKey: KeyObject
  extensions: Buffer[]
}

/** RFC 5280, 4.1: a version 3 certificate with a random serial number of 128 bits. */
function encode(contents: Contents): string {
  const body = der.sequence(
    der.explicit(0, der.integer(Buffer.of(2))),
    der.integer(randomBytes(16)),
    signatureAlgorithm,
    distinguishedName(contents.issuer),
    der.sequence(der.time(contents.validFrom), der.time(contents.validUntil)),
    distinguishedName(contents.commonName),
    contents.publicKey.export({ type: 'spki', format: 'der' }),
    der.explicit(3, der.sequence(...contents.extensions)),
  )
  const certificate = der.sequence(body, signatureAlgorithm, der.bitString(sign('sha256', body, contents.signingKey)))
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

const newKey = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })
const keyPem = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' }).toString()

const authorityName = 'Espalier certificate authority'
const keyUsage = { signature: Buffer.of(0x80), signOthers: Buffer.of(0x06) }

/** A new certificate authority: self-signed, for ten years. It signs only leaf certificates (path length 0). */
export function createAuthority(now: () => number = Date.now): Authority {
  const { publicKey, privateKey } = newKey()
  const identifier = keyIdentifier(publicKey)
  const validFrom = now() - backdatedMs
  const cert = encode({
    commonName: authorityName,
    issuer: authorityName,
    validFrom,
    validUntil: validFrom + authorityDays * dayMs,
    publicKey,
    signingKey: privateKey,
    extensions: [
      extension(oid.basicConstraints, der.sequence(der.boolean(true), der.integer(Buffer.of(0))), true),
      extension(oid.keyUsage, der.bitString(keyUsage.signOthers, 1), true),
      extension(oid.subjectKeyIdentifier, der.octetString(identifier)),
      extension(oid.authorityKeyIdentifier, der.sequence(der.implicit(0, identifier))),
    ],
  })
  return { cert, key: keyPem(privateKey) }
}

type Leaf = { commonName: string; days: number; purpose: string; names: Buffer[] }

function issue(authority: Authority, { commonName, days, purpose, names }: Leaf, now: () => number): CertifiedKey {
  const { publicKey, privateKey } = newKey()
  const issuer = new X509Certificate(authority.cert)
  if (issuer.subject !== `CN=${authorityName}`) throw new RangeError('the authority was not created by Espalier')
  const validFrom = now() - backdatedMs
  const cert = encode({
    commonName,
    issuer: authorityName,
    validFrom,
    // A leaf certificate is not valid after its authority expires.
    validUntil: Math.min(validFrom + days * dayMs, issuer.validToDate.getTime()),
    publicKey,
    signingKey: createPrivateKey(authority.key),
    extensions: [
      extension(oid.basicConstraints, der.sequence(), true),
      extension(oid.keyUsage, der.bitString(keyUsage.signature, 7), true),
      extension(oid.extendedKeyUsage, der.sequence(der.objectIdentifier(purpose))),
      extension(oid.subjectKeyIdentifier, der.octetString(keyIdentifier(publicKey))),
      extension(oid.authorityKeyIdentifier, der.sequence(der.implicit(0, keyIdentifier(issuer.publicKey)))),
      ...(names.length > 0 ? [extension(oid.subjectAltName, der.sequence(...names))] : []),
    ],
  })
  return { cert, key: keyPem(privateKey) }
}

/**
 * A server's certificate, by default for 90 days. Not valid as a client certificate.
 * @throws RangeError for no name, or for a name that is neither a DNS name nor an IP address
 */
export function issueServerCertificate(
  authority: Authority,
  { dnsNames, ipAddresses = [], days = serverDays }: ServerCertificateRequest,
  now: () => number = Date.now,
): CertifiedKey {
  const commonName = dnsNames[0] ?? ipAddresses[0]
  if (commonName === undefined) throw new RangeError('a server certificate needs a DNS name or an IP address')
  const names = [
    ...dnsNames.map(name => der.implicit(2, dnsBytes(name))),
    ...ipAddresses.map(address => der.implicit(7, addressBytes(address))),
  ]
  // A common name has at most 64 characters (RFC 5280, ub-common-name). Clients verify the names above.
  return issue(authority, { commonName: commonName.slice(0, 64), days, purpose: oid.serverAuth, names }, now)
}

/** A client's certificate, by default for 24 hours. Not valid as a server certificate. */
export function issueClientCertificate(
  authority: Authority,
  { commonName, uris = [], days = clientDays }: ClientCertificateRequest,
  now: () => number = Date.now,
): CertifiedKey {
  if (commonName.length < 1 || commonName.length > 64) throw new RangeError('a common name has 1 to 64 characters')
  const names = uris.map(uri => der.implicit(6, uriBytes(uri)))
  return issue(authority, { commonName, days, purpose: oid.clientAuth, names }, now)
}

/** Whether a certificate (PEM) has passed two thirds of its validity, is not valid yet, or is not a certificate. */
export function needsRenewal(cert: string, now: () => number = Date.now): boolean {
  try {
    const { validFromDate, validToDate } = new X509Certificate(cert)
    const from = validFromDate.getTime()
    const lifetime = validToDate.getTime() - from
    return now() < from || now() >= from + (lifetime * 2) / 3
  } catch {
    return true
  }
}

/** Whether a certificate and key belong together and this authority signed them. */
export function isIssuedBy(authority: Authority, { cert, key }: CertifiedKey): boolean {
  try {
    const certificate = new X509Certificate(cert)
    const matches = createPublicKey(key).equals(certificate.publicKey)
    return matches && certificate.verify(new X509Certificate(authority.cert).publicKey)
  } catch {
    return false
  }
}

/** Whether Espalier created a certificate and key as an authority: they match, and the certificate is self-signed. */
export function isAuthority({ cert, key }: CertifiedKey): boolean {
  try {
    const certificate = new X509Certificate(cert)
    return certificate.ca && certificate.subject === `CN=${authorityName}` && isIssuedBy({ cert, key }, { cert, key })
  } catch {
    return false
  }
}
