/** What the service calls itself. */
export { version } from '../../server/version.ts'

/** How Proxy-Status and Server name the service. */
export const serviceName = 'espalier-rest'
