/** Access tokens for the API on the kind cluster. They are signed with the secret with which the API verifies them. */
import { SignJWT } from 'jose'

/** The Secret in the system namespace; the chart's values.yaml names it. */
export const tokenSecret = 'espalier-token-secret'
const [issuer, audience] = ['espalier-kind', 'espalier']

export const mintToken = (
  sharedSecret: string,
  tenant: string,
  claims: Record<string, unknown> = {},
): Promise<string> =>
  new SignJWT({ ...claims, tenant })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .setIssuer(issuer)
    .setAudience(audience)
    .setSubject('e2e')
    .setIssuedAt()
    .setExpirationTime('2h')
    .sign(Buffer.from(sharedSecret))
