/** `make console` builds the console into dist. `npx vite` in this folder serves it while it is changed. */
import { defineConfig } from 'vite'
import { finish } from './finish.ts'

/** Where `npx vite` finds the API. */
const api = process.env.ESPALIER_API ?? 'http://127.0.0.1:8080'

export default defineConfig({
  base: '/console/',
  build: {
    target: 'es2023',
    // The content security policy accepts no `data:` scripts or styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
    reportCompressedSize: false,
    // React's directives for servers mean nothing here.
    rolldownOptions: {
      checks: { pluginTimings: false },
      onwarn: (warning, warn) => warning.code === 'MODULE_LEVEL_DIRECTIVE' || warn(warning),
    },
  },
  plugins: [finish()],
  server: { proxy: { '/managed': api } },
})
