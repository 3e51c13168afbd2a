/** The REST service: PostgREST's file, with the login role `authenticator`. */
import type { ServiceConfig } from '../../../crds/services.ts'
import { authorityFile, container, fileAt, samplesVariables, selfCheckPath } from './parts.ts'
import { servicePorts } from './ports.ts'
import { bindings } from './text.ts'
import type { Rendering, ServiceInput } from './types.ts'

type RestConfig = NonNullable<ServiceConfig['rest']>

const configurationFile = 'rest.conf'
const { http, admin, samples } = servicePorts.rest

export function renderRest(input: ServiceInput, config: RestConfig): Rendering {
  const { password } = input.minted
  if (password === undefined)
    return { kind: 'refused', type: 'rest', fields: ['password'], message: 'rest has no password yet' }
  const { settings, database } = input
  return {
    kind: 'rendered',
    service: {
      files: async () => ({
        [configurationFile]: fileOf(input, config, password),
        [authorityFile]: database.authority,
      }),
      containers: [
        container({
          name: 'rest',
          args: ['rest', fileAt(configurationFile)],
          environment: {
            ESPALIER_REST_SERVER_HOST: '$(POD_IP)',
            // A variable and not the file, because the runtime replaces paths only in variables.
            PGSSLROOTCERT: fileAt(authorityFile),
            ...samplesVariables(samples),
          },
          ports: [
            { name: 'http', port: http },
            { name: 'admin', port: admin },
            { name: 'samples', port: samples },
          ],
          ready: { port: admin, path: selfCheckPath },
          readiness: { port: admin, path: '/live' },
          resources: settings.resources.rest,
        }),
      ],
      writable: [],
      terminationGracePeriodSeconds: 30,
      essential: [fileOf(input, config, password), database.authority, settings.resources.rest],
    },
  }
}

function fileOf(input: ServiceInput, config: RestConfig, password: string): string {
  const { keys, publicUrl } = input
  const secret = keys.jwt_secret
  return bindings({
    'db-uri': uriOf(input, password),
    'db-schemas': config.dbSchemas,
    'db-anon-role': config.dbAnonRole,
    'db-pool': config.dbPool,
    'db-max-rows': config.maxRows,
    // Users of a managed database expect that PostgREST serves a new table without a notification.
    'db-schema-watch-interval': 2,
    // Otherwise every login would read settings of roles. A user's function could change them.
    'db-config': false,
    // PostgREST reads a text that begins with "@" as the name of a file.
    'jwt-secret': secret === undefined ? undefined : Buffer.from(secret).toString('base64'),
    'jwt-secret-is-base64': secret === undefined ? undefined : true,
    'jwt-aud': config.jwtAudience || undefined,
    'jwt-role-claim-key': config.jwtRoleClaimKey || undefined,
    'server-cors-allowed-origins': config.corsOrigins || undefined,
    'server-port': http,
    'admin-server-port': admin,
    'openapi-server-proxy-uri': publicUrl,
  })
}

function uriOf({ database: { host, port, name } }: ServiceInput, password: string): string {
  const user = `authenticator:${encodeURIComponent(password)}`
  return `postgresql://${user}@${host}:${port}/${encodeURIComponent(name)}?sslmode=verify-full`
}
