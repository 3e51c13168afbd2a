/** What the service calls itself. */
// @ts-nocheck

import { version } from '../../server/version.ts'

/** How Proxy-Status names it. */
export const serviceName = 'espalier-rest'
/** How Server names it. */
export const product = `${serviceName}/${version}`
