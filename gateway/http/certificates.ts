/**
 * Selects a client's certificate: the first that is valid for the requested name; if there is none, the first of all.
 */
import { X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Certificate } from '../../server/certificate.ts'

type ServedCertificates = { contextFor(serverName: string): SecureContext | undefined }

/** @throws Error if a certificate is not PEM, or a key does not match its certificate */
export function serveCertificates(certificates: readonly Certificate[]): ServedCertificates {
  const served = certificates.map(({ cert, key }) => ({
    names: new X509Certificate(cert),
    context: createSecureContext({ cert, key, minVersion: 'TLSv1.2' }),
  }))
  return {
    contextFor: serverName =>
      (served.find(({ names }) => names.checkHost(serverName) !== undefined) ?? served[0])?.context,
  }
}
