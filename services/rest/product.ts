/** Names of the service. */
import { version } from '../../server/version.ts'

/** In Proxy-Status. */
export const serviceName = 'espalier-rest'
/** In the Server header. */
export const product = `${serviceName}/${version}`
