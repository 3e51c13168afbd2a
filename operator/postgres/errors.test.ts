import { describe, expect, test } from 'vitest'
import { PostgresError, postgresErrorOf } from './errors.ts'

const withCode = (code: string, message = 'no') => Object.assign(new Error(message), { code })

describe('errors of a connection', () => {
  test.each<[Error, string]>([
    [withCode('57P03', 'the database system is starting up'), 'starting'],
    [withCode('57P01'), 'starting'],
    [withCode('28000'), 'auth'],
    [withCode('28P01'), 'auth'],
    [withCode('53300'), 'busy'],
    [withCode('55P03'), 'busy'],
    [withCode('57014'), 'timeout'],
    [withCode('42601'), 'statement'],
    [withCode('XX000'), 'statement'],
    [withCode('ECONNREFUSED'), 'network'],
    [withCode('EPIPE'), 'network'],
    [withCode('ERR_TLS_CERT_ALTNAME_INVALID'), 'tls'],
    [withCode('ERR_SSL_TLSV1_ALERT_UNKNOWN_CA'), 'tls'],
    [withCode('SELF_SIGNED_CERT_IN_CHAIN'), 'tls'],
    [withCode('CERT_HAS_EXPIRED'), 'tls'],
    [new Error('The server does not support SSL connections'), 'tls'],
    [new Error('timeout expired'), 'timeout'],
    [new Error('Connection terminated unexpectedly'), 'network'],
  ])('%s is reported with what to do: %s', (error, reason) => {
    expect(postgresErrorOf(error).reason).toBe(reason)
  })

  test('contain no verifier, detail or cause', () => {
    const source = Object.assign(new Error("syntax error at or near 'SCRAM-SHA-256$4096:c2FsdA==$a:b'"), {
      code: '42601',
      detail: 'secret detail',
      hint: 'secret hint',
      query: 'secret query',
    })
    const error = postgresErrorOf(source)
    expect(error.message).toBe("syntax error at or near '[verifier]")
    expect(JSON.stringify({ ...error, message: error.message, cause: error.cause })).not.toMatch(/secret|SCRAM/)
  })

  test('that were rewritten before are not changed', () => {
    const error = new PostgresError('busy', 'later')
    expect(postgresErrorOf(error)).toBe(error)
  })
})
