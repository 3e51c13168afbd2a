/** A server certificate for tests, and the certificate of the authority that signed it; all PEM. */
// @ts-nocheck

import { createAuthority, issueServerCertificate } from '../../operator/pki/index.ts'

export function testCertificate(name: string): { cert: string; key: string; ca: string } {
  const authority = createAuthority()
  return { ...issueServerCertificate(authority, { dnsNames: [name] }), ca: authority.cert }
}
