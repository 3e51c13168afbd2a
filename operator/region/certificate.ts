/**
 * The certificate for HTTPS of a region's services: a copy of the certificate that the Region names, or a certificate
 * from the installation's authority. Pure, except that it creates keys.
 */
import { createPublicKey, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import type { Secret } from '../../cluster/index.ts'
import { labels, type Region, systemNamespace } from '../../crds/index.ts'
import { regionCertificateComponent } from '../keys.ts'
import { type Finding, no, yes } from '../objects/conditions.ts'
import { type CertifiedKey, isIssuedBy, issueServerCertificate, needsRenewal } from '../pki/index.ts'
import type { Trust } from '../pki/trust.ts'

type RegionCertificate = {
  finding: Finding
  /** The gateway's desired certificate. Undefined if the gateway already has it. */
  next?: () => CertifiedKey
}

const decoded = (secret: Secret | undefined, key: string): string =>
  Buffer.from(secret?.data?.[key] ?? '', 'base64').toString('utf8')

/** The certificate and key of a region in the gateway's Secret. */
export function storedCertificate(secret: Secret | undefined, region: string): CertifiedKey | undefined {
  const [cert, key] = [decoded(secret, `${region}.crt`), decoded(secret, `${region}.key`)]
  return cert === '' || key === '' ? undefined : { cert, key }
}

/** The names of a region's services: names below its domain, and names for clients that cannot resolve the domain. */
export function httpsNames({ spec: { domain, gateway } }: Region): { dnsNames: string[]; ipAddresses: string[] } {
  const own = [gateway.https?.host ?? gateway.host].filter(name => name !== undefined)
  const isLoopback = own.some(name => isIP(name) === 4 && name.startsWith('127.'))
  return {
    dnsNames: [`*.${domain}`, ...own.filter(name => isIP(name) === 0), ...(isLoopback ? ['localhost'] : [])],
    ipAddresses: own.filter(name => isIP(name) !== 0),
  }
}

/** Undefined if the region serves no HTTPS. `named`: the Secret that its spec names. */
export function regionCertificate(
  region: Region,
  {
    authority,
    stored,
    named,
  }: { authority: Trust | undefined; stored: CertifiedKey | undefined; named?: Secret | undefined },
  now: () => number,
): RegionCertificate | undefined {
  if (region.spec.gateway.https === undefined) return undefined
  const { certificate } = region.spec
  return certificate === undefined
    ? issued(region, authority, stored, now)
    : copied(region, certificate.secretName, named, stored, now)
}

function issued(
  region: Region,
  authority: Trust | undefined,
  stored: CertifiedKey | undefined,
  now: () => number,
): RegionCertificate {
  if (authority === undefined)
    return { finding: no('AuthorityMissing', "the installation's certificate authority is missing") }
  const names = httpsNames(region)
  if (
    stored !== undefined &&
    isIssuedBy(authority, stored) &&
    isFor(stored.cert, names) &&
    !needsRenewal(stored.cert, now)
  )
    return { finding: yes('Issued', `issued by the installation's authority${until(stored.cert)}`) }
  try {
    const next = issueServerCertificate(authority, names, now)
    return { finding: no('Issuing', 'the certificate is being issued'), next: () => next }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return {
      finding: no('CertificateNotIssued', `no certificate can be issued for ${names.dnsNames.join(', ')}: ${why}`),
    }
  }
}

function copied(
  { spec: { domain } }: Region,
  name: string,
  named: Secret | undefined,
  stored: CertifiedKey | undefined,
  now: () => number,
): RegionCertificate {
  const secretText = `the Secret ${systemNamespace}/${name}`
  if (named?.metadata.labels?.[labels.component] !== regionCertificateComponent) {
    const wanted = `the label ${labels.component}: ${regionCertificateComponent}`
    return { finding: no('CertificateMissing', `${secretText} does not exist, or lacks ${wanted}`) }
  }
  const pair = { cert: decoded(named, 'tls.crt'), key: decoded(named, 'tls.key') }
  const problem = problemOf(pair, `*.${domain}`, now)
  if (problem !== undefined)
    return { finding: no('CertificateInvalid', `${secretText} ${problem}; the previous certificate is still served`) }
  if (stored?.cert === pair.cert && stored.key === pair.key)
    return { finding: yes('Copied', `copied from ${secretText}${until(pair.cert)}`) }
  return { finding: no('Issuing', `the certificate of ${secretText} is being copied`), next: () => pair }
}

const isFor = (cert: string, { dnsNames, ipAddresses }: { dnsNames: string[]; ipAddresses: string[] }): boolean => {
  const certificate = new X509Certificate(cert)
  return (
    dnsNames.every(name => certificate.checkHost(name.replace(/^\*/, 'any')) !== undefined) &&
    ipAddresses.every(address => certificate.checkIP(address) !== undefined)
  )
}

function problemOf({ cert, key }: CertifiedKey, name: string, now: () => number): string | undefined {
  try {
    const certificate = new X509Certificate(cert)
    if (!createPublicKey(key).equals(certificate.publicKey)) return 'contains a key that does not match its certificate'
    if (!isFor(cert, { dnsNames: [name], ipAddresses: [] })) return `contains a certificate that is not for ${name}`
    return certificate.validToDate.getTime() <= now() ? 'contains an expired certificate' : undefined
  } catch {
    return 'does not contain a certificate and its key as PEM'
  }
}

const until = (cert: string): string => `, valid until ${new X509Certificate(cert).validToDate.toISOString()}`
