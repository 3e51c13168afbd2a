/**
 * The TLS Secret: the server's certificate and key, the authority by which Postgres checks the operator's client
 * certificate, and the client certificate by which the pod's agent logs in as the role that monitors this instance. Unlike a password it may be issued anew at any time; Postgres reads it again when told to reload.
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

/** On the TLS Secret: when its certificate was issued, RFC 3339. */
const issuedAnnotation = 'espalier.dev/issued'

/** On a TLS Secret: the mark of the trust it was issued under. */
export const trustAnnotation = 'espalier.dev/trust'
/**
 * On a database's TLS Secret, while an authority is being replaced: the fingerprint of the certificate that its Postgres
 * was seen to show. Postgres reads its certificate first and whom it trusts last, of one mounted version or a later one:
 * what shows this certificate trusts what stands beside it.
 */
export const loadedAnnotation = 'espalier.dev/loaded'

/** What a server answers to. */
export type ServerNames = { dnsNames: string[]; ipAddresses: string[] }

/**
 * The Service's names, and what clients outside connect to: the endpoint's host and the database's domain. Where the host
 * is a loopback address, clients also connect to it as `localhost`.
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
  const marks = { [issuedAnnotation]: new Date(now()).toISOString(), [trustAnnotation]: trust.mark }
  const secret = tlsSecret(
    { ...metadata, annotations: { ...metadata.annotations, ...marks } },
    { ...issueServerCertificate(trust, names, now), trust: trust.bundle },
  )
  const monitor = issueClientCertificate(trust, { commonName: monitorCommonName(owner.id), days: monitorDays }, now)
  return { ...secret, data: { ...secret.data, ...monitorData(monitor) } }
}

/** As long as the server's beside it, with which it is renewed. */
const monitorDays = 90
const monitorFiles = { certificate: 'monitor.crt', key: 'monitor.key' } as const

const monitorData = ({ cert, key }: CertifiedKey): Record<string, string> => ({
  [monitorFiles.certificate]: Buffer.from(cert).toString('base64'),
  [monitorFiles.key]: Buffer.from(key).toString('base64'),
})

/** Whether the Secret holds the certificate of the agent: one from before there was an agent does not. */
export const holdsMonitor = (secret: Secret): boolean =>
  Object.values(monitorFiles).every(name => secret.data?.[name] !== undefined)

const text = (secret: Secret, key: string): string => Buffer.from(secret.data?.[key] ?? '', 'base64').toString('utf8')

/** When the Secret's certificate was issued, in ms; undefined where it does not say. */
export function issuedAt(secret: Secret): number | undefined {
  const at = Date.parse(secret.metadata.annotations?.[issuedAnnotation] ?? '')
  return Number.isNaN(at) ? undefined : at
}

const fingerprints = new WeakMap<Secret, string | undefined>()

/** SHA-256 of the certificate in a TLS Secret, as Node writes fingerprints; undefined where it holds none. */
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

/** Whether the Secret's certificate was issued under the trust of this mark. */
export const isUnder = (secret: Secret, mark: string): boolean =>
  secret.metadata.annotations?.[trustAnnotation] === mark

/** Whether the database was seen to show the Secret's certificate. */
export function isLoaded(secret: Secret): boolean {
  const loaded = secret.metadata.annotations?.[loadedAnnotation]
  return loaded !== undefined && loaded === fingerprintOf(secret)
}

/** Signatures are slow to check, and what was checked of an unchanged Secret stays so. */
const checked = new WeakMap<Secret, { trust: Trust; names: string; isOurs: boolean }>()

function isOurs(secret: Secret, trust: Trust, names: ServerNames): boolean {
  const cert = text(secret, 'tls.crt')
  if (text(secret, 'ca.crt') !== trust.bundle || !isIssuedBy(trust, { cert, key: text(secret, 'tls.key') }))
    return false
  const certificate = new X509Certificate(cert)
  return (
    names.dnsNames.every(name => certificate.checkHost(name) !== undefined) &&
    names.ipAddresses.every(address => certificate.checkIP(address) !== undefined)
  )
}

/** Whether the Secret holds a client certificate under this trust of this name that is not due for renewal. */
export function isGoodClient(secret: Secret, trust: Trust, { commonName }: { commonName: string }, now: () => number) {
  const cert = text(secret, 'tls.crt')
  return (
    text(secret, 'ca.crt') === trust.bundle &&
    isIssuedBy(trust, { cert, key: text(secret, 'tls.key') }) &&
    new X509Certificate(cert).subject === `CN=${commonName}` &&
    !needsRenewal(cert, now)
  )
}

/** Whether the Secret holds a certificate under this trust for these names that is not due for renewal. */
export function isGoodCertificate(secret: Secret, trust: Trust, names: ServerNames, now: () => number): boolean {
  const namesText = JSON.stringify(names)
  let known = checked.get(secret)
  if (known?.trust !== trust || known.names !== namesText) {
    known = { trust, names: namesText, isOurs: isOurs(secret, trust, names) }
    checked.set(secret, known)
  }
  return known.isOurs && !needsRenewal(text(secret, 'tls.crt'), now)
}
