/** Finds the account of each request, and refuses revoked members. */
import type { FastifyRequest } from 'fastify'
import type { App } from '../context.ts'
import { unauthorized } from '../errors.ts'
import type { Account, Tenants } from '../tenants.ts'

declare module 'fastify' {
  interface FastifyRequest {
    account: Account | undefined
  }
}

export function useTenant(app: App, tenants: Tenants): void {
  app.addHook('onRequest', (request, _reply, done) => {
    try {
      if (request.principal === undefined) throw unauthorized('a bearer token is required')
      const account = tenants.accountOf(request.principal)
      if (!(account instanceof Promise)) {
        request.account = account
        return done()
      }
      account.then(found => {
        request.account = found
        done()
      }, done)
    } catch (error) {
      done(error instanceof Error ? error : new Error('no account', { cause: error }))
    }
  })
}

/** The account of an authenticated request. */
export function accountOf(request: FastifyRequest): Account {
  if (request.account === undefined) throw unauthorized('a bearer token is required')
  return request.account
}
