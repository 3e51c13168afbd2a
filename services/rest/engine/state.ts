/**
 * The state that answers requests. A reload of the configuration or the schema cache replaces it, except the counts of
 * requests in flight.
 */
import { type Authenticator, type CacheEvent, createAuthenticator } from '../../authentication/index.ts'
import { Durations } from '../../postgres/durations.ts'
import type { SchemaCache } from '../../schema-cache/types.ts'
import type { RestConfiguration } from '../configuration/index.ts'
import { InFlight } from '../limits/in-flight.ts'
import { parseRoleLimits, type RoleLimits } from '../limits/role-limits.ts'
import type { RequestRules } from '../parse/request.ts'
import type { PlanSettings } from '../plan/context.ts'
import { StatementTemplates } from '../templates/templates.ts'
import { type Admissions, noAdmissions } from './admissions.ts'
import { AnswerSizes } from './answer-sizes.ts'
import type { SettingsOfRoles } from './read-database.ts'
import type { RoleSettings } from './role-settings.ts'

/** Derived from the configuration. */
export type ConfiguredState = {
  readonly configuration: RestConfiguration
  readonly authenticator: Authenticator
  readonly roleSettings: ReadonlyMap<string, RoleSettings>
  /** The statement timeout of a role that has none; 0: no timeout. */
  readonly statementTimeoutMs: number
  readonly planSettings: PlanSettings
  readonly roleLimits: ReadonlyMap<string, RoleLimits>
  /** `app.settings.*`, by full name. */
  readonly appSettings: readonly (readonly [string, string])[]
}

export type State = ConfiguredState & {
  readonly cache: SchemaCache
  readonly rules: RequestRules
  readonly admissions: Admissions
  readonly answerSizes: AnswerSizes
  readonly durations: Durations
  readonly inFlight: InFlight
  readonly templates: StatementTemplates
}

export function configuredState(
  configuration: RestConfiguration,
  roles: SettingsOfRoles,
  now: () => number,
  onTokenCache: (event: CacheEvent) => void,
): ConfiguredState {
  const { jwtSecret, jwtAud, jwtRoleClaimKey, jwtCacheMaxEntries } = configuration
  return {
    configuration,
    authenticator: createAuthenticator(
      {
        ...(jwtSecret === undefined ? {} : { jwtSecret }),
        ...(jwtAud === undefined ? {} : { audience: jwtAud }),
        roleClaimKey: jwtRoleClaimKey,
        cacheMaxEntries: jwtCacheMaxEntries,
        onCache: onTokenCache,
      },
      now,
    ),
    roleSettings: roles.byRole,
    statementTimeoutMs: roles.statementTimeoutMs,
    planSettings: {
      maximumRows: configuration.dbMaxRows,
      aggregatesEnabled: configuration.dbAggregatesEnabled,
      plansEnabled: configuration.dbPlanEnabled,
      ndjsonEnabled: configuration.ndjsonEnabled,
      aliasesOnly: configuration.urlUseLegacyTargetNames === false,
    },
    roleLimits: parseRoleLimits(configuration.roleLimits ?? '') ?? new Map(),
    appSettings: Object.entries(configuration.appSettings).map(([name, value]) => [`app.settings.${name}`, value]),
  }
}

/** `before`: the previous state. */
export function stateOf(configured: ConfiguredState, cache: SchemaCache, before: State | undefined): State {
  const { configuration, planSettings } = configured
  const rules: RequestRules = {
    schemas: configuration.dbSchemas,
    rootFunction: configuration.dbRootSpec,
    openApiDisabled: configuration.openapiMode === 'disabled',
    keysetParameter: configuration.keysetParameter,
    timeZones: configuration.dbTimezoneEnabled && configuration.dbTimezoneUnchecked ? 'any' : cache.timeZones,
  }
  return {
    ...configured,
    cache,
    admissions: noAdmissions(),
    answerSizes: new AnswerSizes(),
    durations: new Durations(),
    inFlight: before?.inFlight ?? new InFlight(),
    rules,
    templates: new StatementTemplates({ rules, cache, planSettings }),
  }
}
