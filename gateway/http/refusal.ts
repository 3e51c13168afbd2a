/** The gateway's own responses: a status, a reason for the metrics and a JSON body. Pure. */
import type { ServiceType } from '../../routes/route.ts'

export type HttpRefusal = {
  status: number
  message: string
  headers?: Readonly<Record<string, string>>
}

export const refusalBody = ({ status, message }: HttpRefusal): string => JSON.stringify({ code: status, message })

const soon = (seconds: number) => ({ 'retry-after': String(seconds) })

export const malformedRequest = (message: string): HttpRefusal => ({ status: 400, message })
export const unauthorized = (isWrong: boolean): HttpRefusal => ({
  status: 401,
  message: isWrong ? 'the bearer token is invalid for this service' : 'this service requires a bearer token',
  headers: { 'www-authenticate': isWrong ? 'Bearer realm="rag", error="invalid_token"' : 'Bearer realm="rag"' },
})
export const notAllowed = (service: ServiceType, label: string, address: string): HttpRefusal => ({
  status: 403,
  message: `the allowlist of the service ${service} of ${label} does not admit the address ${address}`,
})
export const unknownHost: HttpRefusal = { status: 404, message: 'no database has this host name' }
export const unknownPath = (has: readonly ServiceType[]): HttpRefusal => ({
  status: 404,
  message: `no service has this path; this database has ${has.length === 0 ? 'no services' : has.map(each => `/${each}`).join(', ')}`,
})
export const noService = (service: ServiceType): HttpRefusal => ({
  status: 404,
  message: `this database has no service ${service}`,
})
export const noBridge: HttpRefusal = { status: 404, message: 'this service has no bridge; send requests to /mcp/v1' }
export const misdirected: HttpRefusal = {
  status: 421,
  message: 'the host name of the request differs from that of the TLS connection',
}
export const noUpgrade: HttpRefusal = {
  status: 501,
  message: 'services do not support WebSocket or other upgraded protocols; send plain HTTP requests',
}
const unavailableReasons = {
  suspended: { seconds: 30, text: 'its database is suspended; resume the database first' },
  starting: { seconds: 5, text: 'it is starting' },
}
export const unavailable = (service: ServiceType, reason: keyof typeof unavailableReasons): HttpRefusal => ({
  status: 503,
  message: `the service ${service} is not available: ${unavailableReasons[reason].text}`,
  headers: soon(unavailableReasons[reason].seconds),
})
export const unreachable = (service: ServiceType): HttpRefusal => ({
  status: 503,
  message: `the service ${service} does not accept connections now`,
  headers: soon(2),
})
export const outOfTouch: HttpRefusal = {
  status: 503,
  message: 'the gateway does not know the current allowlists',
  headers: soon(5),
}
export const tooManyRequests: HttpRefusal = {
  status: 503,
  message: 'too many requests are in progress',
  headers: soon(1),
}
export const badGateway = (service: ServiceType): HttpRefusal => ({
  status: 502,
  message: `the service ${service} closed the connection before its response`,
})
export const gatewayTimeout = (service: ServiceType): HttpRefusal => ({
  status: 504,
  message: `the service ${service} did not respond in time`,
})
export const slowBody: HttpRefusal = { status: 408, message: 'the body of the request arrived too slowly' }
export const largeBody = (limit: number): HttpRefusal => ({
  status: 413,
  message: `the body of the request is larger than ${limit} bytes`,
})
