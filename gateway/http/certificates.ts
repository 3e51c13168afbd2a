/** Which certificate a client is shown: the first that is for the name it asks for, else the first of all. */
import { X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import type { Certificate } from '../../server/certificate.ts'

type ServedCertificates = { contextFor(serverName: string): SecureContext | undefined }

/** @throws Error where one is no PEM, or a key is not that of its certificate */
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
