/** `make console` builds the console into dist. In this folder, `npx vite` starts a development server. */
import { defineConfig } from 'vite'
import { finish } from './finish.ts'

/** URL of the API to which the development server forwards requests. */
const api = process.env.ESPALIER_API ?? 'http://127.0.0.1:8080'

export default defineConfig({
  base: '/console/',
  build: {
    target: 'es2023',
    // The content security policy blocks scripts and styles in `data:` URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    manifest: true,
    reportCompressedSize: false,
    // Hides warnings about directives such as "use client", which have no effect in a browser.
    rolldownOptions: {
      checks: { pluginTimings: false },
      onwarn: (warning, warn) => warning.code === 'MODULE_LEVEL_DIRECTIVE' || warn(warning),
    },
  },
  plugins: [finish()],
  server: { proxy: { '/managed': api } },
})
