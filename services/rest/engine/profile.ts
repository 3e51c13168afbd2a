/** Which schema an answer is from, where several are served. Pure. */
import type { HttpResponse } from '../../http/message.ts'
import type { State } from './state.ts'

/** Names are UTF-8 in headers as they are in requests'; Node writes a character for a byte. */
const headerBytes = (name: string): string => Buffer.from(name, 'utf8').toString('latin1')

/** Says it of what is sent. */
export function withProfile({ rules }: State, schema: string, response: HttpResponse): HttpResponse {
  const isProfiled = rules.schemas.length > 1 && response.headers.some(([name]) => name === 'Content-Type')
  return isProfiled
    ? { ...response, headers: [...response.headers, ['Content-Profile', headerBytes(schema)]] }
    : response
}
