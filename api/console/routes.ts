/**
 * `/console`: the files of the console. They contain no data, so clients need no token. A path without a file returns
 * the page of the console, which routes in the browser.
 */
import { relative } from 'node:path'
import fastifyStatic from '@fastify/static'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ZodTypeProvider } from 'fastify-type-provider-zod'
import { z } from 'zod'
import type { ApiConfiguration } from '../configuration.ts'
import type { App } from '../context.ts'
import { ApiError, notFound } from '../errors.ts'
import { isNotModified } from '../preconditions.ts'
import { type ConsoleFiles, createConsoleFiles, hashedNames, indexFile, isCompressedCopy } from './files.ts'

type ConsoleOptions = {
  /** If absent or without files, the API has no console. */
  directory: string | undefined
  configuration: ApiConfiguration
  now: () => number
}

/** Origins to which the browser sends a login's requests: the issuer, and other origins that the login needs. */
function loginOrigins({ login, authentication }: ApiConfiguration): string[] {
  return login === undefined ? [] : [...new Set([new URL(authentication.issuer).origin, ...login.origins])]
}

const headersOf = (configuration: ApiConfiguration): Record<string, string> => ({
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    ["connect-src 'self'", ...loginOrigins(configuration)].join(' '),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
  // Errors must not be cached: while replicas of two versions run, one may lack a file that the other has.
  'cache-control': 'no-store',
})

const immutable = 'public, max-age=31536000, immutable'
const revalidated = 'no-cache'

/** The file that answers a path; undefined: no file. */
function fileOf(path: string, { names, tags }: ConsoleFiles): string | undefined {
  if (path.startsWith(hashedNames)) return names.has(path) && !isCompressedCopy(path) ? path : undefined
  if (tags.has(path)) return path
  // The console has no page with such a name. The client is searching for files outside the directory.
  return path.split(/[/\\]/).includes('..') ? undefined : indexFile
}

/** Returns whether there is a console. */
export async function addConsole(
  app: App,
  { directory, configuration, now }: ConsoleOptions,
): Promise<() => Promise<boolean>> {
  const readFiles = createConsoleFiles(directory, now)
  const headers = headersOf(configuration)

  async function filesOrRefusal(): Promise<ConsoleFiles> {
    const files = await readFiles()
    if (files === undefined) throw new ApiError(404, 'this installation has no console: `make console` builds it')
    return files
  }

  async function sendPath(request: FastifyRequest, reply: FastifyReply, path: string): Promise<FastifyReply> {
    const files = await filesOrRefusal()
    const name = fileOf(path, files)
    if (name === undefined || directory === undefined) throw notFound('file')
    const tag = files.tags.get(name)
    if (tag !== undefined) {
      reply.header('etag', tag)
      if (isNotModified(request.headers, tag))
        return reply.headers({ 'cache-control': revalidated, vary: 'accept-encoding' }).code(304).send()
    }
    // The library would choose a compressed copy itself, which may be a symlink.
    const onFile = (found: string) => {
      if (!files.names.has(relative(directory, found))) throw notFound('file')
    }
    return reply.sendFile(name, directory, { onFile })
  }

  await app.register(
    async scope => {
      const pages = scope.withTypeProvider<ZodTypeProvider>()
      pages.addHook('onRequest', (_request, reply, done) => {
        reply.headers(headers)
        done()
      })
      await scope.register(fastifyStatic, {
        serve: false,
        preCompressed: true,
        index: false,
        dotfiles: 'allow',
        acceptRanges: false,
        cacheControl: false,
        // The library would derive both from the file's time, which is the same in every version of an image.
        etag: false,
        lastModified: false,
        setHeaders: (reply, path) => {
          const isHashed = relative(directory ?? '', path).startsWith(hashedNames)
          reply.header('cache-control', isHashed ? immutable : revalidated)
        },
      })
      pages.get('/', { schema: { hide: true } }, (request, reply) => sendPath(request, reply, indexFile))
      const schema = { hide: true, params: z.object({ '*': z.string() }) }
      pages.get('/*', { schema }, (request, reply) => sendPath(request, reply, request.params['*']))
    },
    { prefix: '/console' },
  )
  return async () => (await readFiles()) !== undefined
}
