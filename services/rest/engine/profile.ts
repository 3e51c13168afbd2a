/** Adds Content-Profile to responses if the service exposes several schemas. Pure. */
import type { HttpResponse } from '../../http/message.ts'
import type { State } from './state.ts'

/** Names in headers are UTF-8 in requests and responses; Node writes one byte per character. */
const headerBytes = (name: string): string => Buffer.from(name, 'utf8').toString('latin1')

export function withProfile({ rules }: State, schema: string, response: HttpResponse): HttpResponse {
  const isProfiled = rules.schemas.length > 1 && response.headers.some(([name]) => name === 'Content-Type')
  return isProfiled
    ? { ...response, headers: [...response.headers, ['Content-Profile', headerBytes(schema)]] }
    : response
}
