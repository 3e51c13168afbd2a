/** What the service calls itself. */

export const version = '0.1.0'
/** How Proxy-Status and Server name the service. */
export const serviceName = 'espalier-rest'
