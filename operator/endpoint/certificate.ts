/**
 * The TLS Secret. It contains the server's certificate and key, the authority with which Postgres verifies the
 * operator's client certificate, and the agent's client certificate. With that, the pod's agent logs in as the
 * monitoring role of this instance. Unlike a password, the Secret may be reissued at any time. Postgres reads it again
 * at a reload.
 */
import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import type { Draft, Secret } from '../../cluster/index.ts'
import { childNames, type Endpoint } from '../../crds/index.ts'
import { serviceHost } from '../member/pod/addresses.ts'
import { childMetadata, type Owner } from '../objects/ownership.ts'
import {
  type CertifiedKey,
  isIssuedBy,
  issueClientCertificate,
  issueServerCertificate,
  needsRenewal,
} from '../pki/index.ts'
import { tlsSecret } from '../pki/secret.ts'
import type { Trust } from '../pki/trust.ts'
import { monitorCommonName } from '../postgres/configuration.ts'

/** Annotation of the TLS Secret: when its certificate was issued, RFC 3339. */
const issuedAnnotation = 'espalier.dev/issued'

/** Annotation of a TLS Secret: the fingerprint of the authorities under which it was issued. */
export const trustAnnotation = 'espalier.dev/trust'
/**
 * Annotation of a database's TLS Secret while an authority is being replaced: the fingerprint of the certificate that
 * Postgres was observed to present. Postgres reads its certificate first, and its trusted authorities last, from the
 * same version of the mount or a later one. So a Postgres that presents this certificate also trusts the authorities in
 * the same Secret.
 */
export const loadedAnnotation = 'espalier.dev/loaded'

/** The names in a server's certificate. */
export type ServerNames = { dnsNames: string[]; ipAddresses: string[] }

/**
 * The Service's names, and the names for clients outside the cluster: the endpoint's host and the database's domain. If
 * the host is a loopback address, clients also connect to it as `localhost`.
 */
export function serverNames(
  owner: Owner,
  { domain, host, externalIpAddress }: { domain: string } & Omit<Endpoint, 'port'>,
): ServerNames {
  const service = childNames.service(owner.id)
  const outside = [domain, host, externalIpAddress].filter(name => name !== undefined)
  const isLoopback = outside.some(name => (isIP(name) === 4 && name.startsWith('127.')) || name === '::1')
  return {
    dnsNames: [
      ...new Set([
        serviceHost(owner),
        `${serviceHost(owner)}.cluster.local`,
        `${service}.${owner.namespace}`,
        service,
        ...outside.filter(name => isIP(name) === 0),
        ...(isLoopback ? ['localhost'] : []),
      ]),
    ],
    ipAddresses: [...new Set(outside.filter(name => isIP(name) !== 0))],
  }
}

export function certificateDraft(owner: Owner, trust: Trust, names: ServerNames, now: () => number): Draft<'Secret'> {
  const metadata = childMetadata(owner, childNames.tls(owner.id), 'tls')
  const written = { [issuedAnnotation]: new Date(now()).toISOString(), [trustAnnotation]: trust.digest }
  const secret = tlsSecret(
    { ...metadata, annotations: { ...metadata.annotations, ...written } },
    { ...issueServerCertificate(trust, names, now), trust: trust.bundle },
  )
  const monitor = issueClientCertificate(trust, { commonName: monitorCommonName(owner.id), days: monitorDays }, now)
  return { ...secret, data: { ...secret.data, ...monitorData(monitor) } }
}

/** As long as the server's certificate. Both are renewed together. */
const monitorDays = 90
const monitorFiles = { certificate: 'monitor.crt', key: 'monitor.key' } as const

const monitorData = ({ cert, key }: CertifiedKey): Record<string, string> => ({
  [monitorFiles.certificate]: Buffer.from(cert).toString('base64'),
  [monitorFiles.key]: Buffer.from(key).toString('base64'),
})

/** Whether the Secret contains the agent's certificate. Secrets from before agents existed do not. */
export const containsMonitor = (secret: Secret): boolean =>
  Object.values(monitorFiles).every(name => secret.data?.[name] !== undefined)

const text = (secret: Secret, key: string): string => Buffer.from(secret.data?.[key] ?? '', 'base64').toString('utf8')

/** When the Secret's certificate was issued, in ms. Undefined without the annotation. */
export function issuedAt(secret: Secret): number | undefined {
  const at = Date.parse(secret.metadata.annotations?.[issuedAnnotation] ?? '')
  return Number.isNaN(at) ? undefined : at
}

const fingerprints = new WeakMap<Secret, string | undefined>()

/** SHA-256 of the certificate in a TLS Secret, in the format of Node's fingerprints. Undefined if there is none. */
export function fingerprintOf(secret: Secret): string | undefined {
  if (!fingerprints.has(secret)) fingerprints.set(secret, readFingerprint(text(secret, 'tls.crt')))
  return fingerprints.get(secret)
}

function readFingerprint(certificate: string): string | undefined {
  try {
    return new X509Certificate(certificate).fingerprint256
  } catch {
    return undefined
  }
}

/** Whether the Secret's certificate was issued under the authorities with this fingerprint. */
export const isUnder = (secret: Secret, digest: string): boolean =>
  secret.metadata.annotations?.[trustAnnotation] === digest

/** Whether Postgres was observed to present the Secret's certificate. */
export function isLoaded(secret: Secret): boolean {
  const loaded = secret.metadata.annotations?.[loadedAnnotation]
  return loaded !== undefined && loaded === fingerprintOf(secret)
}

/** Verifying a signature is slow, so the result is cached per Secret object. */
const checked = new WeakMap<Secret, { trust: Trust; names: string; isIssued: boolean }>()

function isIssued(secret: Secret, trust: Trust, names: ServerNames): boolean {
  const cert = text(secret, 'tls.crt')
  if (text(secret, 'ca.crt') !== trust.bundle || !isIssuedBy(trust, { cert, key: text(secret, 'tls.key') }))
    return false
  const certificate = new X509Certificate(cert)
  return (
    names.dnsNames.every(name => certificate.checkHost(name) !== undefined) &&
    names.ipAddresses.every(address => certificate.checkIP(address) !== undefined)
  )
}

/**
 * Whether the Secret contains a client certificate under these authorities with this name. The certificate must not be
 * due for renewal.
 */
export function isGoodClient(secret: Secret, trust: Trust, { commonName }: { commonName: string }, now: () => number) {
  const cert = text(secret, 'tls.crt')
  return (
    text(secret, 'ca.crt') === trust.bundle &&
    isIssuedBy(trust, { cert, key: text(secret, 'tls.key') }) &&
    new X509Certificate(cert).subject === `CN=${commonName}` &&
    !needsRenewal(cert, now)
  )
}

/**
 * Whether the Secret contains a certificate under these authorities for these names. The certificate must not be due
 * for renewal.
 */
export function isGoodCertificate(secret: Secret, trust: Trust, names: ServerNames, now: () => number): boolean {
  const namesText = JSON.stringify(names)
  let known = checked.get(secret)
  if (known?.trust !== trust || known.names !== namesText) {
    known = { trust, names: namesText, isIssued: isIssued(secret, trust, names) }
    checked.set(secret, known)
  }
  return known.isIssued && !needsRenewal(text(secret, 'tls.crt'), now)
}
